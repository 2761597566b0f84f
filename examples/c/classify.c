/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies the lines of standard input:  classify MODEL [POLICY] < texts.txt */
#include <exeunt.h>
#include <stdio.h>
#include <string.h>

static int fail(exeunt_status status) {
  fprintf(stderr, "error: %s\n", exeunt_last_error());
  if (*exeunt_last_hint()) fprintf(stderr, "  hint: %s\n", exeunt_last_hint());
  return (int)status;
}

int main(int count, char** arguments) {
  if (count < 2 || count > 3) {
    fprintf(stderr, "usage: classify MODEL [POLICY] < texts.txt\n");
    return EXEUNT_USAGE;
  }
  exeunt_options options = EXEUNT_OPTIONS_INIT;
  if (count == 3) options.policy = arguments[2];
  exeunt_model* model = NULL;
  exeunt_status status = exeunt_open(arguments[1], &options, &model);
  if (status != EXEUNT_OK) return fail(status);

  char line[65536];
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    exeunt_result result = EXEUNT_RESULT_INIT;
    status = exeunt_classify(model, line, NULL, &result, NULL);
    if (status != EXEUNT_OK) break;
    printf("%s\t%.4f\tlayer %d\n", exeunt_label(model, result.label), result.score, result.exit_layer);
  }
  exeunt_close(model);
  return status == EXEUNT_OK ? 0 : fail(status);
}

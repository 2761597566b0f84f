// SPDX-License-Identifier: Apache-2.0
// The manifests, and the deployments that the overlays make, against the schemas that Kubernetes and the Prometheus operator publish:
// as types, which know every field, and as validators, which know formats. Of KServe's kinds, the pods in them.
//   node --test tests/system/deploy/
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const scratch = mkdtempSync(join(here, "node_modules/.schemas-")); // from there the compiler finds the types
after(() => rmSync(scratch, { recursive: true, force: true }));

const reader = "import json, sys; sys.dont_write_bytecode = True; sys.path.insert(0, 'tests/unit/serve/process'); import deploy_test; print(json.dumps(deploy_test.documents('.')))";
const read = JSON.parse(execFileSync("/usr/bin/python3", ["-c", reader], { cwd: join(here, "../../.."), encoding: "utf8" }));
const documents = read.map(([, document]) => known(document));

function known({ apiVersion, kind, metadata, spec }) {
  const pod = (part) => ({ apiVersion: "v1", kind: "Pod", metadata, spec: part });
  if (kind === "ServingRuntime") return pod({ containers: spec.containers, volumes: spec.volumes });
  if (kind === "InferenceService") return pod({ ...spec.predictor, model: undefined, containers: [{ name: "kserve-container" }] });
  return { apiVersion, kind, metadata, spec };
}

function kubectl() {
  try { return execFileSync("kubectl", ["version", "--client"], { stdio: "pipe" }); } catch { return null; }
}

const schemaOf = (version) => (version.startsWith("monitoring.") ? "@kubernetes-models/prometheus-operator/" : "kubernetes-models/") + version;

function compile(listed) {
  const file = join(scratch, "documents.mts");
  writeFileSync(file, listed.map((document, i) =>
    `import type { I${document.kind} as T${i} } from "${schemaOf(document.apiVersion)}";\nexport const d${i}: T${i} = ${JSON.stringify(document)};`).join("\n"));
  execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--module", "esnext",
    "--moduleResolution", "bundler", "--target", "es2022", file], { encoding: "utf8" });
}

async function check(listed) {
  for (const document of listed) {
    const model = (await import(schemaOf(document.apiVersion)))[document.kind];
    new model(document).validate();
  }
  compile(listed);
}

test("documents have the fields, types and formats of their schemas", async () => {
  const kinds = ["Deployment", "HorizontalPodAutoscaler", "Job", "Pod", "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "Service"];
  assert.deepEqual([...new Set(documents.map(({ kind }) => kind))].sort(), kinds);
  await check(documents);
});

// documents() patches the deployment alone, without kustomize.
test("the overlays that kustomize makes are so, too, and the deployment is that of the other tests", { skip: kubectl() ? false : "no kubectl" }, async () => {
  for (const name of ["cpu", "gpu", "kserve"]) {
    const yaml = execFileSync("kubectl", ["kustomize", join(here, "../../../deploy/kubernetes/overlays", name)], { encoding: "utf8" });
    const made = JSON.parse(execFileSync("/usr/bin/python3", ["-c", "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"], { input: yaml, encoding: "utf8" }));
    await check(made.map(known));
    const ours = read.find(([where]) => where === `overlays/${name}`)?.[1].spec;
    if (!ours) continue;
    const { spec } = made.find(({ kind }) => kind === "Deployment");
    spec.template.spec.containers[0].image = ours.template.spec.containers[0].image; // which that of a GPU replaces
    assert.deepEqual(spec, ours);
  }
});

test("fields that there are not, missing ones, types and quantities are noticed", async () => {
  const deployment = documents.find(({ kind }) => kind === "Deployment");
  const wrongs = [(spec) => { spec.replica = 3; }, (spec) => { spec.replicas = "3"; }, (spec) => { delete spec.selector; },
    (spec) => { spec.template.spec.containers[0].probe = {}; },
    (spec) => { spec.template.spec.containers[0].resources.limits.memory = "2Gigabytes"; }];
  for (const wrong of wrongs) {
    const changed = structuredClone(deployment);
    wrong(changed.spec);
    await assert.rejects(check([changed]), `${wrong}`);
  }
});

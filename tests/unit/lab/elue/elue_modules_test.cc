// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "exeunt/model/cost.h"
#include "lab/elue/submission.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

// As much of PyTorch as it takes to count parameters.
constexpr const char* kTorch = R"(
class Module:
    def __init__(self): pass
    def own(self): return 0
    def parts(self):
        return [part for part in vars(self).values() if isinstance(part, Module)]
    def all(self, seen):
        if id(self) in seen: return 0
        seen.add(id(self))
        return self.own() + sum(part.all(seen) for part in self.parts())
class Linear(Module):
    def __init__(self, a, b): self.n = a * b + b
    def own(self): return self.n
class Embedding(Linear):
    def __init__(self, a, b): self.n = a * b
class LayerNorm(Linear):
    def __init__(self, a): self.n = 2 * a
class Tanh(Module): pass
class Sequential(Module):
    def __init__(self, *parts): self.__dict__.update({str(i): part for i, part in enumerate(parts)})
class ModuleDict(Module):
    def __init__(self, parts): self.__dict__.update(parts)
)";

struct Counted {
  int64_t parameters = 0;
  std::string names;
};

Counted counted(const ModelSpec& spec, const ExitLayout& exits) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "torch/nn");
  scratch.write("torch/__init__.py", "from . import nn\n");
  scratch.write("torch/nn/__init__.py", kTorch);
  scratch.write("modules.py", elue_module_file(spec, exits));
  scratch.write("count.py",
                "import modules\nopen('out', 'w').write(f'{modules.entire_model.all(set())} ' + "
                "' '.join(modules.module_list))\n");
  const std::string command = "cd '" + scratch.path().string() + "' && /usr/bin/python3 count.py";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(scratch.path() / "out");
  Counted out;
  file >> out.parameters;
  std::getline(file, out.names);
  return out;
}

TEST(ElueModules, HaveTheNamesAndTheParametersOfTheModel) {
  const ModelSpec spec = tiny::spec(Family::bert, 2);
  const Counted found = counted(spec, tiny::own_heads(spec));
  EXPECT_EQ(found.parameters, count_parameters(spec, tiny::own_heads(spec)).total());
  EXPECT_EQ(found.names, " emb layer_1 layer_2 exit_1 exit_2");
  for (const Family family : {Family::bert, Family::albert, Family::roberta}) {
    const ModelSpec other = tiny::spec(family);
    ExitLayout inner = tiny::shared_head(other);
    inner.inner = 7;
    for (const ExitLayout& exits : {tiny::own_heads(other), tiny::shared_pooler(other), tiny::raw_heads(other), inner})
      EXPECT_EQ(counted(other, exits).parameters, count_parameters(other, exits).total()) << name_of(family);
  }
  EXPECT_EQ(error_of([&] { (void)elue_module_file(spec, tiny::readers(spec)); }).code(), Code::usage);
}

}  // namespace
}  // namespace exeunt

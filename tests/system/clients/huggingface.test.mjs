// SPDX-License-Identifier: Apache-2.0
// Hugging Face's client for JavaScript, unchanged, against a running server.
//   EXEUNT=build/release/bin/exeunt node --test tests/system/clients/
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { InferenceClient } from "@huggingface/inference";

const exeunt = process.env.EXEUNT ?? "build/release/bin/exeunt";
const model = process.env.MODEL ?? "tests/fixtures/checkpoints/bert-deebert";
let server, address;

before(async () => {
  server = spawn(exeunt, ["serve", model, "--port", "0", "--json-output", "--api-key", "a-good-key"],
    { stdio: ["ignore", "ignore", "pipe"] });
  address = await new Promise((found, failed) => {
    let log = "";
    server.stderr.on("data", (bytes) => {
      log += bytes;
      const listening = log.match(/"message":"listening","address":"([^"]+)"/);
      if (listening) found(`http://${listening[1]}`);
    });
    server.on("exit", (code) => failed(new Error(`the server ended with ${code}: ${log}`)));
  });
});
after(() => server?.kill("SIGTERM"));

const client = (key = "a-good-key") => new InferenceClient(key).endpoint(address);

test("textClassification gets the labels of a text, best first", async () => {
  const answer = await client().textClassification({ inputs: "a great film" });
  assert.deepEqual(answer.map((one) => one.label).sort(), ["negative", "positive"]);
  assert.ok(answer[0].score >= answer[1].score);
  assert.ok(Math.abs(answer[0].score + answer[1].score - 1) < 1e-5);
});

test("parameters are those of its pipelines", async () => {
  const best = await client().textClassification({ inputs: "a great film", parameters: { top_k: 1 } });
  assert.equal(best.length, 1);
  const raw = await client().textClassification({ inputs: "a great film", parameters: { function_to_apply: "none" } });
  const soft = await client().textClassification({ inputs: "a great film", parameters: { function_to_apply: "softmax" } });
  const total = raw.reduce((sum, one) => sum + Math.exp(one.score), 0);
  for (let i = 0; i < 2; ++i) assert.ok(Math.abs(Math.exp(raw[i].score) / total - soft[i].score) < 1e-5);
});

test("/predict stays as text-embeddings-inference has it", async () => {
  const response = await fetch(`${address}/predict`, { method: "POST", body: '{"inputs":"a great film"}',
    headers: { "Content-Type": "application/json", Authorization: "Bearer a-good-key" } });
  const flat = await response.json();
  assert.deepEqual(flat, await client().textClassification({ inputs: "a great film" }));
});

test("/v1/models names the model that a client of vLLM then asks", async () => {
  const headers = { "Content-Type": "application/json", Authorization: "Bearer a-good-key" };
  const models = await (await fetch(`${address}/v1/models`, { headers })).json();
  const id = models.data[0].id;
  const answer = await fetch(`${address}/classify`, { method: "POST", headers, body: JSON.stringify({ model: id, input: "a" }) });
  assert.equal(answer.status, 200);
});

test("its errors are errors of the client", async () => {
  await assert.rejects(client("a-bad-key").textClassification({ inputs: "a" }), (error) => error.httpResponse?.status === 401);
  await assert.rejects(client().textClassification({ inputs: 3 }), (error) => error.httpResponse?.status === 422);
});

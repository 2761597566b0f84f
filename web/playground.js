// The playground: asks /predict with details and draws the ladder of exits. Everything from outside becomes text
// nodes, never markup.
'use strict';

const byId = (id) => document.getElementById(id);
let info = null;
let policies = [''];  // of the slider, from full depth on; '' = the server's own
const timed = 5;  // requests of each kind that are compared

// What a rule compares at an exit: the head of its column, and which way it leaves.
const measures = {
  entropy: ['Entropy', 'leaves below the threshold: 0 = certain'],
  nentropy: ['Entropy / ln C', 'entropy as a share of its maximum; leaves below the threshold'],
  confidence: ['Confidence', 'the largest probability; leaves above the threshold'],
  gini: ['Impurity', '1 − Σ p²; leaves below the threshold'],
  margin: ['Margin', 'the largest probability minus the second; leaves above the threshold'],
  minprob: ['Smallest p', 'the smallest probability; leaves below the threshold'],
  divergence: ['Change', 'Jensen-Shannon divergence to the exit before; leaves below the threshold'],
  lte: ['Should go on', 'score of the learning-to-exit head; leaves below the threshold'],
  window: ['Entropy / ln C', 'leaves below the threshold, or when the last exits lean to one side'],
  pcee: ['Entropy / ln C', 'leaves when it was below the threshold at enough exits in a row'],
  vote: ['Confidence', 'added up over exits in a row that agree; leaves when the sum is above the threshold'],
};
const counted = ['Streak', 'exits in a row with the same answer'];

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function headers() {
  const out = { 'content-type': 'application/json' };
  const key = byId('key').value.trim();
  if (key) out.authorization = 'Bearer ' + key;
  return out;
}

// "full,entropy:0..0.3,window:0.1,8,bias_1": commas that a rule's name follows separate policies.
function splitPolicies(list) {
  return list.split(/,(?=[a-z]+(?::|,|$))/).filter(Boolean);
}

// A range becomes twenty steps.
function expand(policy) {
  const range = policy.match(/^(.*?)([-0-9.]+?)\.\.([-0-9.]+)(.*)$/);
  if (!range) return [policy];
  const [, before, low, high, after] = range;
  const whole = Number.isInteger(Number(low)) && Number.isInteger(Number(high)) && Number(high) > 1;
  const steps = whole ? Math.min(20, Number(high) - Number(low)) : 20;
  const out = [];
  for (let i = 0; i <= steps; ++i) {
    const value = Number(low) + (Number(high) - Number(low)) * i / Math.max(1, steps);
    out.push(before + (whole ? Math.round(value) : Number(value.toFixed(4))) + after);
  }
  return out;
}

function showPolicy() {
  const policy = policies[byId('policy').value] || '';
  const text = policy && !(info && policy === info.policy) ? policy : (info ? info.policy + ' (default)' : 'default');
  byId('policy-name').textContent = text;
  byId('policy').setAttribute('aria-valuetext', text);
}

const percent = (share) => `${Number((100 * share).toPrecision(3))} %`;

// What the server's shadow runs say of a policy that it serves.
function watchedLine(point) {
  const certified = point.certified === null ? 'nothing certified that shadow runs test'
    : `certified: ${info.certificate ? info.certificate.loss : 'loss'} of at most ${percent(point.certified)}`;
  const compared = `${percent(point.confidence)} confidence, texts compared: ${point.texts}`;
  const bound = !point.covered ? 'not covered: texts drawn for comparison are being dropped'
    : point.texts === 0 ? 'no text compared yet' : `on this server's texts below ${percent(point.upper_bound)} (${compared})`;
  return element('li', `${point.policy}: ${certified}; ${bound}` + (point.alarm ? '; the promise is broken' : ''),
    point.alarm ? 'bad' : '');
}

function showWatched() {
  const points = (info && info.watched) || [];
  byId('watched').hidden = points.length === 0;
  byId('watched').replaceChildren(...points.map(watchedLine));
}

async function refreshWatched() {
  if (!info || !info.watched || info.watched.length === 0 || document.hidden) return;
  try {
    const response = await fetch('info', { headers: headers() });
    if (response.ok) info.watched = (await response.json()).watched;
  } catch {
    return;  // the next request to the server says why
  }
  showWatched();
}

// Each policy once, the server's own among them, so that the ends of the slider differ; full depth is its left end.
function choosePolicies() {
  const allowed = splitPolicies(info.allowed_policies);
  policies = [...new Set(allowed.flatMap(expand))].filter((policy) => policy !== 'full');
  if (info.policy !== 'full' && !policies.includes(info.policy)) {  // among those of its rule, by its first number
    const parts = (policy) => [policy.split(':')[0], parseFloat(policy.split(':')[1])];
    const [rule, value] = parts(info.policy);
    const next = policies.findIndex((policy) => parts(policy)[0] === rule && parts(policy)[1] > value);
    policies.splice(next < 0 ? policies.length : next, 0, info.policy);
  }
  if (info.policy === 'full' || allowed.includes('full')) policies.unshift('full');
  byId('policy').max = policies.length - 1;
  byId('policy').value = policies.indexOf(info.policy);
  byId('policy').disabled = policies.length < 2;
}

// A text of the model's own data, where the server has one, unless something is typed already.
function showExample() {
  byId('pair-choice').hidden = info.texts === 1;
  const example = info.example;
  if (!example || byId('text').value) return;
  byId('text').value = example.text;
  if (example.pair === null) return;
  byId('with-pair').checked = true;
  byId('pair-box').hidden = false;
  byId('pair').value = example.pair;
}

async function loadInfo() {
  try {
    const response = await fetch('info', { headers: headers() });
    if (!response.ok) throw new Error(response.status === 401 ? 'enter the API key to begin' : 'status ' + response.status);
    info = await response.json();
    byId('model').textContent = `${info.model_id}: ${info.layers} layers, exits after ${info.exits.join(', ')}; ` +
      `${info.engine}; policy ${info.policy}; promise: ${info.promise}`;
    choosePolicies();
    showExample();
  } catch (error) {
    byId('model').textContent = 'Cannot load model info: ' + error.message;
  }
  showPolicy();
  showWatched();
}

function inputs() {
  const text = byId('text').value;
  return byId('with-pair').checked ? [text, byId('pair').value] : text;
}

function body(policy) {
  const exit = { details: true };
  if (policy && !(info && policy === info.policy)) exit.policy = policy;  // the server's own needs no name
  return JSON.stringify({ inputs: inputs(), exit });
}

// What the server measured itself; the way there and back would hide what exits save.
const serverMs = (response) => Number(/compute;dur=([\d.]+)/.exec(response.headers.get('server-timing') ?? '')?.[1] ?? NaN);

async function ask(policy) {
  const response = await fetch('predict', { method: 'POST', headers: headers(), body: body(policy) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error + (answer.hint ? ' (' + answer.hint + ')' : ''));
  return { predictions: answer, exit: answer[0].exit, ms: serverMs(response) };
}

function card(name, value) {
  const made = element('div', undefined, 'card');
  made.append(element('b', value), element('span', name, 'soft'));
  return made;
}

function labels() {
  const kind = info && info.model_type && (info.model_type.classifier || info.model_type.reranker);
  return kind ? Object.values(kind.id2label) : [];
}

function bars(rung) {
  const box = element('td');
  const names = labels();
  const ranked = (rung.probabilities || []).map((p, i) => [p, names[i] || String(i)]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  for (const [p, name] of ranked) {
    const line = element('div', undefined, 'bar');
    const track = element('span', undefined, 'track');
    const fill = element('span', undefined, 'fill');
    fill.style.width = (100 * p).toFixed(1) + '%';
    fill.style.display = 'block';
    track.setAttribute('aria-hidden', 'true');
    track.append(fill);
    line.append(element('span', name), track, element('span', (100 * p).toFixed(1) + ' %'));
    box.append(line);
  }
  if (rung.value !== undefined) box.textContent = rung.value.toFixed(4);
  return box;
}

function row(rung, left, run, measure) {
  const made = element('tr', undefined, left ? 'left' : run ? '' : 'unrun');
  made.append(element('td', String(rung.layer)), element('td', rung.label || ''), bars(rung), element('td', measure),
    element('td', left ? '← left here' : run ? '' : 'not run'));
  return made;
}

function draw(early, full) {
  const exit = early.exit;
  const saved = exit.layers - exit.layers_run;
  byId('status').textContent = (exit.layer === 0 ? `Answered from the words alone, before layer 1 of ${exit.layers},`
    : `Left after layer ${exit.layer} of ${exit.layers}`) + ` by ${exit.left_by.replace('_', ' ')}.`;
  const cards = [card('label', early.predictions[0].label), card('score', early.predictions[0].score.toFixed(4)),
    card('layers saved', `${saved} of ${exit.layers}`), card(full ? 'median server time' : 'server time', early.ms.toFixed(2) + ' ms'),
    card('policy', exit.policy), card('tokens', exit.tokens + (exit.truncated_tokens ? ` (${exit.truncated_tokens} more cut off)` : ''))];
  if (full) {
    const same = full.predictions[0].label === early.predictions[0].label;
    cards.push(card('full depth says', full.predictions[0].label + (same ? ' (the same)' : ' (another)')),
      card('median server time at full depth', full.ms.toFixed(2) + ' ms'));
  }
  const compared = byId('compared');
  compared.hidden = !full;
  compared.textContent = `Compared: this text by ${exit.policy} and at full depth, the median of ${timed} requests each, in turn and ` +
    'after one of each to warm up; times are the server\'s, for tokens and layers, without the network.';
  // Full depth and a fixed layer compare nothing: entropy is shown then.
  const rule = exit.rule === undefined || exit.rule === 'full' || exit.rule === 'layer' ? 'entropy' : exit.rule;
  const [name, meaning] = measures[rule] ?? counted;
  byId('measure').textContent = name;
  byId('meaning').textContent = `${name}: ${meaning}` +
    (measures[rule] ? '; taken at the temperatures that the policy decides with, not at those of the probabilities.' : '.');
  byId('cards').replaceChildren(...cards);
  // Exits that only full depth reached have no measure of this rule unless it is one that every answer carries.
  const measured = (rung, run) => {
    const value = measures[rule] ? (run ? rung.measure : undefined) ?? rung[rule] : rung.streak;
    return value === undefined ? '' : measures[rule] ? value.toFixed(3) : String(value);
  };
  const rungs = exit.exits.map((rung) => row(rung, rung.layer === exit.layer, true, measured(rung, exit.rule === rule)));
  for (const rung of full ? full.exit.exits : []) if (rung.layer > exit.layer) rungs.push(row(rung, false, false, measured(rung, false)));
  byId('rungs').replaceChildren(...rungs);
  byId('ladder').hidden = false;
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

// Both ways warm and in turn: whichever came first would else pay for the connection, caches and memory of both.
async function askBoth(policy) {
  const early = await ask(policy), full = await ask('full');
  const times = [[], []];
  for (let i = 0; i < timed; ++i) {
    times[0].push((await ask(policy)).ms);
    times[1].push((await ask('full')).ms);
  }
  early.ms = median(times[0]);
  full.ms = median(times[1]);
  return [early, full];
}

async function classify(event) {
  event.preventDefault();
  const status = byId('status');
  byId('go').disabled = true;
  status.className = 'soft';
  status.textContent = 'Classifying …';
  try {
    if (!info) await loadInfo();
    const policy = policies[byId('policy').value];
    const [early, full] = byId('compare').checked ? await askBoth(policy) : [await ask(policy), null];
    draw(early, full);
  } catch (error) {
    status.className = 'bad';
    status.textContent = error.message;
    byId('ladder').hidden = true;
    byId('compared').hidden = true;
    byId('cards').replaceChildren();
  } finally {
    byId('go').disabled = false;
  }
}

// A word for a POSIX shell: single quotes, with those inside written as '\''.
const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

async function copyCurl() {
  const key = byId('key').value ? " -H 'Authorization: Bearer '\"$EXEUNT_API_KEY\"" : '';
  const command = `curl ${new URL('predict', location.href)}${key} -H 'Content-Type: application/json' -d ` +
    quoted(body(policies[byId('policy').value]));
  try {
    await navigator.clipboard.writeText(command);
    byId('copied').textContent = 'Copied.';
  } catch {
    byId('copied').textContent = command;  // no clipboard without a secure page: show it instead
  }
}

byId('form').addEventListener('submit', classify);
byId('curl').addEventListener('click', copyCurl);
byId('policy').addEventListener('input', showPolicy);
byId('key').addEventListener('change', loadInfo);
byId('with-pair').addEventListener('change', (event) => { byId('pair-box').hidden = !event.target.checked; });
byId('form').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) byId('form').requestSubmit();
});
setInterval(refreshWatched, 10000);
loadInfo();

// A rematd on a store of its own, a browser, and pages that are watched for errors.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';

import { chromium } from 'playwright-core';

const { REMAT_BUILD, REMAT_ROOT } = process.env;
const REMATD = join(REMAT_BUILD, 'server', 'rematd');

export function profileText(name) {
  return readFileSync(join(REMAT_ROOT, 'clients', 'profiles', `${name}.json`), 'utf8');
}

export class Service {
  static async start(...args) {
    const service = new Service();
    service.folder = mkdtempSync(join(tmpdir(), 'remat-browser-'));
    const store = join(service.folder, 'store.db');
    service.process = spawn(REMATD, ['--listen', '127.0.0.1:0', '--store', store, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    service.ended = new Promise((resolve) => service.process.on('exit', resolve));
    const port = await new Promise((resolve, reject) => {
      createInterface({ input: service.process.stderr }).on('line', (line) => {
        if (line.startsWith('{') && JSON.parse(line).port) resolve(JSON.parse(line).port);
      });
      service.process.on('exit', () => reject(new Error('rematd did not start')));
    });
    service.url = `http://127.0.0.1:${port}/`;
    return service;
  }

  /** A token with its scopes, made as an operator makes one. */
  static token(file, name, scopes) {
    const made = spawnSync(REMATD, ['token', 'add', name, scopes, '--tokens', file], { encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
    return /remat_[0-9a-f]{64}/.exec(made.stdout)[0];
  }

  async call(method, path, body, headers = {}) {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(this.url + path, {
      method,
      body: text,
      headers: { 'Content-Type': 'application/json', ...headers },
    });
    const answer = await response.json();
    assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  }

  /** A question is waited for on a machine with much to do, too. */
  post(path, body) {
    return this.call('POST', path, path === 'v1/schedules' ? { wait: 100, ...body } : body);
  }

  async push(name) {
    return (await this.post('v1/profiles', profileText(name))).profile_id;
  }

  async stop() {
    this.process.kill('SIGTERM');
    assert.equal(await this.ended, 0);
    rmSync(this.folder, { recursive: true });
  }
}

/* ---- the browser ---- */

export function startBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  });
}

/** A page in a context of its own. What it reports as an error is in page.errors; that an answer was
 * a problem, which Chromium reports too, only where it was not expected. */
export async function openPage(browser, service, view = '', options = {}) {
  const { refusals = [], ...contextOptions } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...contextOptions });
  const page = await context.newPage();
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(error.message));
  page.on('console', (message) => {
    const refused = /status of (\d+)/.exec(message.text());
    if (message.type() === 'error' && !(refused && refusals.includes(Number(refused[1]))))
      page.errors.push(message.text());
  });
  page.foreign = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(service.url) && !/^(data|blob):/.test(request.url()))
      page.foreign.push(request.url());
  });
  await page.goto(service.url + view);
  return page;
}

/** Closes a page that must have reported nothing and asked nobody else. */
export async function closePage(page) {
  assert.deepEqual(page.errors, []);
  assert.deepEqual(page.foreign, []);
  await page.context().close();
}

/** Keeps what is seen, where somebody wants to look at it. */
export async function shot(page, name) {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`), fullPage: true });
}

/* ---- a file of tests ---- */

export let service;
export let browser;

/** The tests of this file have one service, started with these options, and one browser. */
export async function stage(...options) {
  service = await Service.start(...options);
  browser = await startBrowser();
  after(async () => {
    await browser.close();
    await service.stop();
  });
}

/* ---- large things ---- */

/** A pseudo-random profile: a chain, or a graph with skips and branches, of n nodes. */
export function largeProfile(kind, n, name = `large ${kind}`) {
  let state = 1;
  const draw = (most) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return 1 + (state % most);
  };
  const nodes = [];
  for (let v = 0; v < n; v++) {
    const inputs = [v === 0 ? 'x' : `n${kind === 'graph' && v % 3 === 1 && v > 3 ? v - 2 : v - 1}`];
    if (kind === 'graph' && v % 9 === 8) inputs.push(`n${v - 8}`);
    nodes.push({
      id: `n${v}`,
      inputs,
      forward_time: draw(100),
      output_bytes: 65536 * draw(64),
      saved_bytes: 65536 * draw(4),
    });
  }
  const used = new Set(nodes.flatMap((node) => node.inputs));
  const loose = nodes
    .slice(0, -1)
    .filter((node) => !used.has(node.id))
    .map((node) => node.id);
  const last = nodes[n - 1];
  last.inputs = [...new Set([...last.inputs, ...loose])];
  return { format: 'remat-profile/1', name, time_unit: 'us', inputs: [{ id: 'x', bytes: 65536 }], nodes };
}

/** GPT's profile with so many of its blocks instead of twelve: 20 nodes in each, and six around them. */
export function deepProfile(layers) {
  const profile = JSON.parse(profileText('gpt.flops'));
  const { nodes } = profile;
  const [head, block, tail] = [nodes.slice(0, 3), nodes.slice(3, 23), nodes.slice(243)];
  const own = new Set(block.map((node) => node.id));
  const rename = (id, k) => id.replace('h_0_', `h_${k}_`);
  const blocks = Array.from({ length: layers }, (_, k) =>
    block.map((node) => ({
      ...node,
      id: rename(node.id, k),
      inputs: node.inputs.map((id) => (own.has(id) ? rename(id, k) : k === 0 ? id : `h_${k - 1}_add_1`)),
    })),
  );
  const last = (id) => id.replace('h_11_', `h_${layers - 1}_`);
  const end = tail.map((node) => ({ ...node, inputs: node.inputs.map(last) }));
  return { ...profile, name: `gpt of ${layers} layers`, nodes: [...head, ...blocks.flat(), ...end] };
}

// The page's sources: strict types; and what is served: policy, names, nothing inline.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Service } from './service.mjs';

const here = dirname(fileURLToPath(import.meta.url));
let service;

before(async () => {
  service = await Service.start();
});

after(() => service.stop());

test('the types are right', () => {
  const done = spawnSync(process.execPath, [join(here, 'node_modules/typescript/bin/tsc'), '-p', 'page'], {
    cwd: here,
    encoding: 'utf8',
  });
  assert.equal(done.status, 0, done.stdout);
});

test('the linter has nothing to say', () => {
  const done = spawnSync(process.execPath, [join(here, 'node_modules/eslint/bin/eslint.js'), '--max-warnings', '0', 'page/src'], {
    cwd: here,
    encoding: 'utf8',
  });
  assert.equal(done.status, 0, done.stdout + done.stderr);
});

test('the document names its files by their content and holds no script', async () => {
  const answer = await fetch(service.url, { headers: { Accept: 'text/html,*/*' } });
  assert.match(answer.headers.get('Content-Type'), /^text\/html/);
  const policy = answer.headers.get('Content-Security-Policy');
  for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"])
    assert.ok(policy.includes(part), part);
  assert.ok(!policy.includes('unsafe'));
  const text = await answer.text();
  assert.ok(!/<script(?![^>]*src=)|style=| on\w+=/.test(text));
  const files = [...text.matchAll(/(?:src|href)="(\/page\/[^"]+)"/g)].map(([, path]) => path);
  assert.equal(files.length, 2);
  for (const path of files) {
    assert.match(path, /-[A-Z0-9]{8}\.(js|css)$/);
    const file = await fetch(service.url.slice(0, -1) + path);
    assert.match(file.headers.get('Cache-Control'), /immutable/);
    assert.equal(file.headers.get('Content-Encoding'), 'gzip');
  }
});

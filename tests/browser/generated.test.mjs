// A client in another language, made from the OpenAPI document alone: TypeScript's types of it are strict, and
// what they promise is what the service sends.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { Service } from './service.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, 'generated');
const openapi = join(process.env.REMAT_ROOT, 'api/openapi.json');
let service;

const CLIENT = `
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.js';

export async function ask(baseUrl: string, profile: components['schemas']['Profile']) {
  const client = createClient<paths>({ baseUrl });
  const posted = await client.POST('/v1/profiles', { body: profile });
  if (posted.error) throw new Error(posted.error.detail);
  const known: components['schemas']['ProfileSummary'] = posted.data;
  const asked = await client.POST('/v1/schedules', { body: { profile_id: known.profile_id, budget: '14MiB' } });
  const schedule = asked.data;
  if (!schedule || 'job_id' in schedule) throw new Error('no schedule');
  const makespan: number = schedule.makespan;
  const id = schedule.schedule_id;
  const why = await client.GET('/v1/schedules/{id}/explanation', { params: { path: { id } } });
  const more: number | undefined = why.data?.more?.bytes;
  const refused = await client.POST('/v1/schedules', { body: { profile_id: known.profile_id, budget: 1 } });
  const least: number | undefined = refused.error?.minimum_budget;
  // @ts-expect-error a misspelt field
  await client.POST('/v1/schedules', { body: { profile_id: known.profile_id, bugdet: '1GiB' } });
  // @ts-expect-error a path that is not there
  await client.GET('/v1/scedules', {});
  return { makespan, peak: schedule.peak, text: why.data?.text, more, least };
}
`;

const OPTIONS = {
  compilerOptions: {
    strict: true,
    target: 'ES2022',
    module: 'NodeNext',
    moduleResolution: 'NodeNext',
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
  },
  files: ['client.mts', 'schema.d.ts'],
};

function node(...words) {
  const done = spawnSync(process.execPath, words, { cwd: folder, encoding: 'utf8' });
  assert.equal(done.status, 0, done.stdout + done.stderr);
}

before(async () => {
  service = await Service.start();
});

after(() => service.stop());

test('a client made from the document asks and understands', async () => {
  mkdirSync(folder, { recursive: true });
  node(join(here, 'node_modules/openapi-typescript/bin/cli.js'), openapi, '--default-non-nullable=false',
    '-o', join(folder, 'schema.d.ts'));
  writeFileSync(join(folder, 'client.mts'), CLIENT);
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(OPTIONS));
  node(join(here, 'node_modules/typescript/bin/tsc'), '-p', folder);
  const { ask } = await import(pathToFileURL(join(folder, 'client.mjs')));
  const document = JSON.parse(readFileSync(openapi, 'utf8'));
  const example = document.paths['/v1/profiles'].post.requestBody.content['application/json'].examples.chain.value;
  const answer = await ask(service.url.replace(/\/$/, ''), example);
  assert.equal(answer.makespan, 30);
  assert.ok(answer.peak <= 14 * 2 ** 20 && answer.more > 0 && answer.least > 2 ** 20);
  assert.match(answer.text, /^auto asked \d+ solvers/);
});

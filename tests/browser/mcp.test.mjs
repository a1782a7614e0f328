// remat mcp, asked by the client of the protocol's own SDK.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const command = join(process.env.REMAT_BUILD, 'clients/cli/remat');
const profile = join(process.env.REMAT_ROOT, 'clients/profiles/gpt.cpu.chain.json');

test('a client of the SDK lists the tools and solves', async () => {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StdioClientTransport({ command, args: ['mcp'] }));
  assert.equal(client.getServerVersion().name, 'remat');
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ['curve', 'explain', 'plan', 'profile_check', 'solve']);
  const done = await client.callTool({ name: 'solve', arguments: { profile, budget: '60%' } });
  assert.equal(done.isError, false);
  assert.equal(JSON.parse(done.content[0].text).verified, true);
  const refused = await client.callTool({ name: 'solve', arguments: { profile, budget: '1KiB' } });
  assert.equal(refused.isError, true);
  await client.close();
});

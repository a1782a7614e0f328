// Bundles the page and writes it as C: build.mjs NODE_MODULES OUTPUT DEPFILE PACKAGES
// Every file but index.html has a hash of its content in its name. OUTPUT holds the entries of an
// array of {name, media type, bytes, gzipped bytes, length, gzipped length}; PACKAGES what was bundled: name, version, licence a line.

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const [modules, output, depfile, packages] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const esbuild = createRequire(resolve(modules, 'here.js'))('esbuild');

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: 'esm',
  target: ['chrome109', 'firefox115', 'safari16'],
  legalComments: 'none',
  nodePaths: [resolve(modules)],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  outdir: 'page',
  publicPath: '/page',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  write: false,
  metafile: true,
};

/** The name under /page/ of the output that an entry point became. */
function nameOf(result, entry) {
  const found = Object.entries(result.metafile.outputs).find(([, one]) => one.entryPoint === entry);
  return found[0].slice('page/'.length);
}

/** Sample profiles, fetched only when one is opened: for each its file, by the name it has in clients/profiles. */
const samples = ['resnet50.flops', 'gpt.flops', 'unet.flops'].map((name) => {
  const path = join(here, '../profiles', `${name}.json`);
  const text = JSON.stringify(JSON.parse(readFileSync(path, 'utf8')));
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 8).toUpperCase();
  return { name, path, file: { name: `${name}-${hash}.json`, contents: Buffer.from(text) } };
});

const worker = await esbuild.build({ ...common, entryPoints: ['src/layout_worker.ts'] });
const page = await esbuild.build({
  ...common,
  entryPoints: ['src/main.tsx', 'style.css'],
  splitting: true,
  define: {
    LAYOUT_WORKER: JSON.stringify(`/page/${nameOf(worker, 'src/layout_worker.ts')}`),
    SAMPLE_FILES: JSON.stringify(Object.fromEntries(samples.map(({ name, file }) => [name, `/page/${file.name}`]))),
  },
});

/** The document of the API, in a bundle of its own, which the page never fetches. */
const openapi = join(here, '../../api/openapi.json');
const docs = await esbuild.build({
  ...common,
  entryPoints: ['src/docs.ts', 'docs.css'],
  define: { OPENAPI: JSON.stringify(JSON.parse(readFileSync(openapi, 'utf8'))) },
});
const manual = readFileSync(join(here, 'docs.html'), 'utf8')
  .replace('docs.js', nameOf(docs, 'src/docs.ts'))
  .replace('docs.css', nameOf(docs, 'docs.css'));

const index = readFileSync(join(here, 'index.html'), 'utf8')
  .replace('main.js', nameOf(page, 'src/main.tsx'))
  .replace('style.css', nameOf(page, 'style.css'));
const types = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  json: 'application/json',
};
const files = [
  { name: 'index.html', contents: Buffer.from(index) },
  { name: 'docs.html', contents: Buffer.from(manual) },
  ...[...page.outputFiles, ...worker.outputFiles, ...docs.outputFiles].map((file) => ({
    name: relative(join(here, 'page'), file.path),
    contents: Buffer.from(file.contents),
  })),
  ...samples.map(({ file }) => file),
];

const array = (bytes) => `(const unsigned char[]){${bytes.join(',')}}`;
const entry = ({ name, contents }) => {
  const zipped = gzipSync(contents, { level: 9 });
  const type = types[name.split('.').pop()];
  return `{"${name}", "${type}", ${array(contents)}, ${array(zipped)}, ${contents.length}, ${zipped.length}},\n`;
};
writeFileSync(output, files.map(entry).join(''));

const read = [page, worker, docs].flatMap((result) => Object.keys(result.metafile.inputs));
read.push(openapi, ...samples.map(({ path }) => path));
const bundled = new Set(read.map((path) => /.*node_modules\/((@[^/]+\/)?[^/]+)/.exec(path)).flatMap((found) => found?.[1] ?? []));
const said = [...bundled].sort().map((name) => JSON.parse(readFileSync(resolve(modules, name, 'package.json'), 'utf8')));
writeFileSync(packages, said.map(({ name, version, license }) => `${name} ${version} ${license}\n`).join(''));
writeFileSync(depfile, `${output}: ${[...new Set(read)].map((path) => resolve(here, path)).join(' ')}\n`);

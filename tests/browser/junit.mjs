// A reporter of node's test runner that writes JUnit, which tests/count.py adds up. (The runner of
// Node 18 has none.)

const escape = (text) =>
  String(text)
    .replace(/[<>&"]/g, (c) => `&#${c.charCodeAt(0)};`)
    .replace(/[^\t\n\x20-\ud7ff\ue000-\ufffd]/g, '?');

export default async function* junit(events) {
  yield '<testsuite name="browser">\n';
  for await (const { type, data } of events) {
    if ((type !== 'test:pass' && type !== 'test:fail') || data.details?.type === 'suite') continue;
    const file = (data.file ?? '').split('/').pop();
    const head = `<testcase classname="${escape(file)}" name="${escape(data.name)}" time="${(data.details?.duration_ms ?? 0) / 1000}"`;
    if (type === 'test:fail')
      yield `${head}><failure>${escape(data.details?.error?.message ?? '')}</failure></testcase>\n`;
    else yield data.skip === undefined ? `${head}/>\n` : `${head}><skipped/></testcase>\n`;
  }
  yield '</testsuite>\n';
}

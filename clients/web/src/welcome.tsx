/** What an empty store shows: what this is, networks to try it with, how to bring one's own. The networks stay below profiles. */

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';

import { request } from './api';
import { Drop, postProfile } from './drop';
import { href } from './route';
import { ProblemBox } from './ui';

/** By name: where build.mjs has put the profile. */
declare const SAMPLE_FILES: Record<string, string>;

const SAMPLES = [
  { file: 'resnet50.flops', name: 'ResNet-50, batch 96', what: '176 operations that take 7.75 GiB' },
  { file: 'gpt.flops', name: 'GPT-2 small, batch 8', what: '246 operations that take 17.9 GiB, twelve equal blocks' },
  { file: 'unet.flops', name: 'U-Net, batch 8', what: '60 operations that take 6.69 GiB, skips across the whole net' },
];

export function Samples(): VNode {
  const [asked, setAsked] = useState('');
  const [problem, setProblem] = useState<unknown>();
  const open = async (file: string) => {
    setAsked(file);
    setProblem(undefined);
    try {
      await postProfile(await (await request('GET', SAMPLE_FILES[file] ?? '')).text());
    } catch (refusal) {
      setAsked('');
      setProblem(refusal);
    }
  };
  return (
    <>
      <ul class="samples">
        {SAMPLES.map(({ file, name, what }) => (
          <li>
            <button type="button" disabled={asked !== ''} onClick={() => void open(file)}>
              <strong>{name}</strong> <span class="quiet">{asked === file ? 'Opening…' : what}</span>
            </button>
          </li>
        ))}
      </ul>
      {problem !== undefined && <ProblemBox problem={problem} />}
    </>
  );
}

export function Welcome(): VNode {
  const lines = [
    'import remat',
    'remat.profile(model, example_inputs, "profile.json")  # measures the model where it is',
    `model = remat.fit(model, example_inputs, "60%", server="${location.origin}")  # or trains at once, in 60 %`,
  ];
  return (
    <section class="welcome">
      <p class="lead">
        remat makes a network train in the memory there is, at the least cost in time. It takes the profile of one
        training step and a memory budget, and answers which values to keep, recompute or offload, and when.
      </p>
      <h2>Open a sample network</h2>
      <Samples />
      <h2>Bring your own</h2>
      <p>In PyTorch:</p>
      <pre tabIndex={0} aria-label="Three lines of Python">
        {lines.join('\n')}
      </pre>
      <Drop />
      <p>
        <code>remat profile push profile.json</code> sends it from a shell. Any other framework writes the same file:{' '}
        <a href="/docs">the API</a> describes it. Nothing to measure yet?{' '}
        <a href={href('plan')}>Plan a known model for a device</a>.
      </p>
    </section>
  );
}

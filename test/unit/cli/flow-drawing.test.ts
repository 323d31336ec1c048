/** Drawings of executions in a terminal, against golden texts with a fixed clock and width. */

import { expect, test } from 'vitest'
import { drawExecution, ExecutionTree, type StepUpdate, timeText } from '../../../src/cli/flows/drawing.ts'
import { viewOf } from '../../../src/cli/flows/view.ts'

const T0 = Date.parse('2026-01-01T00:00:00Z')
const HEAD = { flow: 'order', version: 2, id: 'run_1', status: 'running', startedMs: T0 }
const ERROR = { type: 'https://e.test/x', title: 'Refused', status: 402, detail: 'The card\nis empty.' }

/** `at` in milliseconds since the start. */
const update = (
  at: number,
  seq: number,
  task: string,
  status: string,
  more: Partial<StepUpdate> = {},
): StepUpdate => {
  const name = task.split('/').at(-1) ?? ''
  const at_ = new Date(T0 + at).toISOString()
  return { seq, task, name, kind: 'set', summary: `${name}: does ${name}`, status, at: at_, ...more }
}

const EVENTS = [
  update(0, 0, '/do/0/check', 'running'),
  update(3, 0, '/do/0/check', 'completed', { took: 'good' }),
  update(3, 1, '/do/1/never', 'skipped'),
  update(3, 2, '/do/2/all', 'running'),
  ...[0, 1, 2].flatMap((n) => [
    update(10 + n, 3 + n, '/do/2/all/do/0/put', 'running'),
    n === 1
      ? update(500 + n, 3 + n, '/do/2/all/do/0/put', 'faulted', { error: ERROR })
      : update(600 + n, 3 + n, '/do/2/all/do/0/put', 'completed'),
  ]),
  update(700, 2, '/do/2/all', 'completed'),
  update(700, 6, '/do/3/pay', 'running'),
  update(800, 7, '/do/3/pay/try/0/ask', 'running'),
  update(900, 7, '/do/3/pay/try/0/ask', 'faulted', { error: ERROR }),
  update(900, 6, '/do/3/pay', 'waiting'),
  update(1_900, 6, '/do/3/pay', 'running', { attempt: 2 }),
  update(1_900, 8, '/do/3/pay/try/0/ask', 'running'),
  update(61_900, 8, '/do/3/pay/try/0/ask', 'held', { error: ERROR }),
]

function drawn(events: readonly StepUpdate[], columns = 100): string {
  const tree = new ExecutionTree()
  for (const event of events) tree.apply(event)
  return drawExecution(HEAD, tree, { nowMs: T0 + 100_000, columns, output: { write() {} } }).join('\n')
}

test('tree of tasks: shows marks, paths, iterations, attempts, durations, and errors at their origin', () => {
  expect(drawn(EVENTS)).toBe(`● order v2  run_1  running  1m 40s
├─ ✓ check  does check  → good  3ms
├─ – never  does never
├─ ✓ all  does all  697ms
│  └─ ✓ put  does put  ×3  1 faulted  592ms
└─ ● pay  does pay  attempt 2  1m 39s
   └─ ‖ ask  does ask  ×2  1 faulted  held  1m 39s
        Refused: The card is empty.`)
})

test('error: is shown once at its origin; tasks that it passes through are only marked', () => {
  const failed = [
    update(62_000, 8, '/do/3/pay/try/0/ask', 'faulted', { error: ERROR }),
    update(62_000, 6, '/do/3/pay', 'faulted', { error: ERROR, attempt: 2 }),
  ]
  expect(
    drawn([...EVENTS, ...failed])
      .split('\n')
      .slice(-3)
      .join('\n'),
  ).toBe(`└─ ✗ pay  does pay  attempt 2  1m 1s
   └─ ✗ ask  does ask  ×2  2 faulted  1m 1s
        Refused: The card is empty.`)
})

test('line: is never wider than the terminal', () => {
  for (const line of drawn(EVENTS, 30).split('\n')) expect(line.length).toBeLessThanOrEqual(30)
  expect(drawn(EVENTS, 30)).toContain('└─ ‖ ask  does ask  ×2  1 …')
})

test('durations: are shown in their largest units', () => {
  const times = [0, 12, 1_500, 59_940, 60_000, 200_000, 7_500_000, 270_000_000]
  expect(times.map(timeText)).toEqual(['0ms', '12ms', '1.5s', '59.9s', '1m', '3m 20s', '2h 5m', '3d 3h'])
})

test('output to a file: one line per event, and nothing is redrawn', () => {
  const texts: string[] = []
  const view = viewOf(HEAD, { write: (text) => texts.push(text) })
  for (const event of EVENTS) view.step(event)
  view.end()
  expect(texts).toHaveLength(EVENTS.length)
  expect(texts[1]).toBe('✓      +0.003s  completed  check  does check  → good\n')
  expect(texts.at(-1)).toBe('‖     +61.900s  held       ask  does ask  Refused: The card is empty.\n')
})

test('output to a terminal: the tree is redrawn in place, at most as high as the screen', () => {
  const texts: string[] = []
  const output = { write: (text: string) => texts.push(text), isTTY: true, columns: 60, rows: 6 }
  const view = viewOf(HEAD, output)
  for (const event of EVENTS) view.step(event)
  view.status('faulted')
  view.end()
  const [last = ''] = texts.slice(-1)
  expect(last.split('\n').slice(0, -1)).toHaveLength(4)
  expect(last).toContain('✗ order v2  run_1  faulted')
  expect(last).toContain('\n…\n')
  expect(last).toContain('Refused')
})

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * A flow for each kind of task and call, which runs on real servers and is recorded as a history for replays.
 */

import { expect } from 'vitest'
import { call, eventually } from '../../support/fixtures/tenants.ts'
import type { FakeServers } from '../../support/servers/fake-servers.ts'
import type { FlowRunner } from './flow-runner.ts'

/** Workspace of a flow of a kind, and the servers that it may reach. */
export interface Kinds {
  readonly runner: FlowRunner
  readonly fakeServers: FakeServers
}

export interface Kind {
  /** The task that it shows; after a dash, the variant. */
  readonly name: string
  /** The flow below `do`. */
  readonly tasks: string | ((kinds: Kinds) => string)
  /** The flow above `do`. */
  readonly head?: string
  /** The flow below the tasks: `onError` and `finally`. */
  readonly end?: string
  readonly input?: object | ((kinds: Kinds) => object)
  /** Input that the execution receives while it runs. */
  readonly command?: (kinds: Kinds, id: string) => Promise<void>
  readonly status?: 'completed' | 'faulted' | 'cancelled'
  readonly output: unknown
}

const signal = (type: string, n: number) => ({
  event: { type, source: '/kinds', id: `${type}${n}`, data: { n } },
})
const approving = { decisions: [expect.objectContaining({ approved: true, comment: 'Fine.' })] }

/** With a timer and an activity of its own. */
const FINALLY = `finally:
  - rest: { wait: { milliseconds: 20 } }
  - last:
      call: collection.create
      with: { name: ends, document: { was: '\${ .status // "none" }' } }
      metadata: { tenon: { local: false } }
`

export const KINDS: readonly Kind[] = [
  {
    name: 'call-local',
    tasks:
      "  - a: { call: collection.create, with: { name: kinds, document: { n: 1 } }, output: { as: '${ .n }' } }",
    output: 1,
  },
  {
    name: 'call-own',
    tasks: `  - a:
      call: collection.create
      with: { name: kinds, document: { n: 2 } }
      metadata: { tenon: { local: false } }
      output: { as: '\${ .n }' }
  - b: { call: collection.get, with: { name: kinds, id: 0198c0de-0000-7000-8000-000000000000 } }`,
    status: 'faulted',
    output: null,
  },
  {
    // Enough calls that one of them has a task of its own.
    name: 'call-brief',
    tasks: ({ fakeServers }) => `  - all:
      for: { each: n, in: '\${ [range(8)] }' }
      do: [{ get: { call: http, with: { method: get, endpoint: '${fakeServers.origin}/late' } } }]
  - last: { call: http, with: { method: head, endpoint: '${fakeServers.origin}/echo' }, output: { as: '\${ 8 }' } }`,
    output: 8,
  },
  {
    name: 'call-http',
    tasks: ({ fakeServers }) => `  - get:
      call: http
      with: { method: get, endpoint: '${fakeServers.origin}/echo' }
      metadata: { tenon: { local: false } }
  - post: { call: http, with: { method: post, endpoint: '${fakeServers.origin}/echo', body: { was: '\${ .method }' } } }
  - read: { set: { body: '\${ .body }' } }`,
    output: { body: '{"was":"GET"}' },
  },
  {
    name: 'call-openapi',
    tasks: ({ fakeServers }) => `  - a:
      call: openapi
      with: { document: { endpoint: '${fakeServers.origin}/v2/swagger.json' }, operationId: getPetById, parameters: { petId: 7 } }
      output: { as: '\${ .id }' }`,
    output: 7,
  },
  {
    name: 'call-function',
    tasks: '  - a: { call: function.invoke, with: { id: kinds, input: { n: 4 } } }',
    output: 8,
  },
  {
    name: 'do',
    tasks: "  - outer: { do: [{ one: { set: { n: 1 } } }, { two: { set: { n: '${ .n + 1 }' } } }] }",
    output: { n: 2 },
  },
  {
    name: 'set',
    tasks:
      "  - a: { set: { n: 1 }, export: { as: '${ { kept: .n } }' } }\n  - b: { set: { kept: '${ $context.kept }' } }",
    output: { kept: 1 },
  },
  {
    name: 'switch',
    tasks: `  - which: { switch: [{ small: { when: .n < 3, then: little } }, { other: { then: much } }] }
  - much: { set: { size: much }, then: end }
  - little: { set: { size: little } }`,
    input: { n: 2 },
    output: { size: 'little' },
  },
  {
    name: 'for',
    tasks: `  - each:
      for: { each: n, in: '\${ [1, 2, 3] }' }
      while: $n < 3
      do: [{ put: { call: collection.create, with: { name: kinds, document: { n: '\${ $n }' } }, output: { as: '\${ .n }' } } }]`,
    output: 2,
  },
  {
    name: 'for-concurrent',
    tasks: ({ fakeServers }) => `  - each:
      for: { each: n, in: '\${ [range(6)] }', concurrency: 3, onError: continue }
      do:
        - rest: { wait: { milliseconds: 5 } }
        - ask: { call: http, with: { method: get, endpoint: '${fakeServers.origin}/echo' }, if: $n < 4, output: { as: '\${ $n }' } }
        - say: { set: '\${ $n }' }`,
    output: [0, 1, 2, 3, 4, 5],
  },
  {
    name: 'fork',
    tasks: ({ fakeServers }) => `  - all:
      fork:
        branches:
          - ask: { call: http, with: { method: get, endpoint: '${fakeServers.origin}/echo' }, output: { as: '\${ "asked" }' } }
          - rest: { do: [{ nap: { wait: { milliseconds: 20 } } }, { say: { set: { rested: true } } }] }`,
    output: ['asked', { rested: true }],
  },
  {
    name: 'fork-compete',
    tasks: `  - race:
      fork:
        compete: true
        branches:
          - slow: { do: [{ long: { wait: { hours: 1 } } }, { never: { set: { won: slow } } }] }
          - fast: { do: [{ nap: { wait: { milliseconds: 20 } } }, { say: { set: { won: fast } } }] }`,
    output: { won: 'fast' },
  },
  {
    name: 'try',
    tasks: ({ fakeServers }) => `  - guarded:
      try: [{ ask: { call: http, with: { method: get, endpoint: '${fakeServers.origin}/missing' } } }]
      catch:
        errors: { with: { status: 404 } }
        retry: { delay: { milliseconds: 20 }, limit: { attempt: { count: 2 } } }
        do: [{ handle: { set: { caught: '\${ $error.status }' } } }]`,
    output: { caught: 404 },
  },
  {
    name: 'raise',
    tasks: `  - book:
      call: collection.create
      with: { name: kinds, document: { n: 7 } }
      compensate: [{ undo: { call: collection.create, with: { name: undone, document: { n: '\${ .output.n }' } } } }]
  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }`,
    status: 'faulted',
    output: null,
  },
  {
    name: 'wait',
    tasks: '  - a: { wait: { milliseconds: 20 } }\n  - b: { set: { done: true } }',
    output: { done: true },
  },
  {
    // Long enough for its slot to be yielded.
    name: 'wait-place',
    head: 'concurrency: { limit: 1, holdWhileWaiting: false }\n',
    tasks: `  - a: { wait: { milliseconds: 1200 } }
  - b: { call: collection.create, with: { name: kinds, document: { n: 4 } }, output: { as: '\${ .n }' } }`,
    output: 4,
  },
  {
    name: 'timeout',
    tasks: '  - a: { wait: { hours: 1 }, timeout: { after: { milliseconds: 50 } } }',
    status: 'faulted',
    output: null,
  },
  {
    name: 'listen',
    tasks:
      "  - a: { listen: { to: { all: [{ with: { type: a } }, { with: { type: b } }] } }, output: { as: '${ map(.n) }' } }",
    command: async ({ runner }, id) => {
      await runner.command(id, 'signal', signal('a', 1))
      await runner.command(id, 'signal', signal('b', 2))
    },
    output: [1, 2],
  },
  {
    name: 'listen-stream',
    tasks:
      "  - a: { listen: { to: { all: [{ with: { type: kinds.a } }, { with: { type: kinds.b } }] } }, output: { as: '${ map(.n) }' } }",
    command: async ({ runner }) => {
      for (const [n, topic] of ['kinds.a', 'kinds.b'].entries())
        await call('POST', '/v1/events/publish', {
          at: runner.at,
          as: runner.workspace.service,
          body: { topic, data: { n } },
        })
    },
    output: [0, 1],
  },
  {
    name: 'call-callback',
    tasks: ({ fakeServers }) => `  - a:
      call: http
      with: { method: post, endpoint: '${fakeServers.origin}/echo', body: { reply_to: '\${ $callback.url }' } }
      awaitCallback: { timeout: PT1M }`,
    command: async ({ runner, fakeServers }) => {
      const received = await eventually(async () =>
        fakeServers.requestsTo('/echo').find(({ body }) => body.includes('/callbacks/')),
      )
      const { pathname, search } = new URL(JSON.parse(received.body).reply_to)
      const { status } = await call('POST', `${pathname}${search}`, { at: runner.at, body: { n: 3 } })
      expect(status).toBe(202)
    },
    output: { n: 3 },
  },
  {
    name: 'emit',
    tasks:
      "  - a: { emit: { event: { with: { source: https://example.com, type: kinds.said, data: { n: 1 } } } }, output: { as: '${ .type }' } }",
    output: 'kinds.said',
  },
  {
    name: 'run',
    tasks:
      "  - a: { run: { workflow: { namespace: kinds, name: kind-set, input: {} } } }\n  - b: { run: { workflow: { namespace: kinds, name: kind-do, input: {} }, await: false }, output: { as: '${ type }' } }",
    output: 'object',
  },
  {
    name: 'approve',
    tasks: '  - a: { approve: { approvers: ["${ $workflow.input.by }"], fourEyes: false } }',
    input: ({ runner }) => ({ by: runner.at.clientId }),
    command: ({ runner }, id) => runner.command(id, 'approve', { approved: true, comment: 'Fine.' }),
    output: expect.objectContaining({ approved: true, ...approving }),
  },
  {
    name: 'hold',
    head: 'onFault: hold\n',
    tasks: `  - a: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }
  - b: { set: { got: '\${ .by }' } }`,
    command: ({ runner }, id) => release(runner, id),
    output: { got: 'hand' },
  },
  {
    name: 'cancel',
    tasks: `  - book:
      call: collection.create
      with: { name: kinds, document: { n: 9 } }
      compensate: [{ free: { call: collection.create, with: { name: undone, document: { n: '\${ .output.n }' } } } }]
  - nap: { wait: { hours: 1 } }`,
    command: ({ runner }, id) => runner.command(id, 'cancel', {}),
    status: 'cancelled',
    output: null,
  },
  {
    name: 'end-faulted',
    tasks: `  - book:
      call: collection.create
      with: { name: kinds, document: { n: 10 } }
      export: { as: '\${ { n: .n } }' }
      compensate: [{ free: { call: collection.create, with: { name: undone, document: { n: '\${ .output.n }' } } } }]
  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }`,
    end: `onError:
  - tell: { call: collection.create, with: { name: told, document: { n: '\${ $context.n }', was: '\${ $error.status }' } } }
${FINALLY}`,
    status: 'faulted',
    output: null,
  },
  {
    name: 'end-completed',
    tasks: "  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }",
    end: `onError:\n  - mend: { set: { mended: '\${ $error.status }' }, then: end }\n${FINALLY}`,
    output: { mended: 409 },
  },
  {
    name: 'end-cancelled',
    tasks: '  - nap: { wait: { hours: 1 } }',
    end: FINALLY,
    command: ({ runner }, id) => runner.command(id, 'cancel', {}),
    status: 'cancelled',
    output: null,
  },
  {
    // Cancelled during `onError`, so that only `finally` follows.
    name: 'end-cancelled-on-error',
    tasks: "  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }",
    end: `onError:\n  - nap: { wait: { hours: 1 } }\n${FINALLY}`,
    command: ({ runner }, id) => runner.command(id, 'cancel', {}),
    status: 'faulted',
    output: null,
  },
  {
    // Its last history begins with the continued state, since Temporal suggests to continue after 4,096 events.
    name: 'end-continued',
    tasks: `  - book: { call: collection.create, with: { name: kinds, document: { n: 11 } }, export: { as: '\${ { n: .n } }' } }
  - many: { for: { in: '\${ [range(2200)] }', concurrency: 1000 }, do: [{ nap: { wait: { milliseconds: 1 }, output: { as: '\${ 1 }' } } }] }
  - rest: { wait: { milliseconds: 20 } }
  - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }`,
    end: `onError:
  - tell: { call: collection.create, with: { name: told, document: { n: '\${ $context.n }', was: '\${ $error.status }' } } }
${FINALLY}`,
    status: 'faulted',
    output: null,
  },
]

async function release(runner: FlowRunner, id: string): Promise<void> {
  const { workspace } = runner
  await expect
    .poll(async () => (await runner.call('GET', `${workspace.flows}/executions/${id}`)).body.status, {
      timeout: 60_000,
    })
    .toBe('suspended')
  const skipped = await runner.call('POST', `${workspace.flows}/executions/${id}/skip-step`, {
    output: { by: 'hand' },
  })
  expect(skipped.status).toBe(200)
}

/** Prerequisites of the flows: a function, and the permission to call the fake servers. */
export async function prepare({ runner, fakeServers }: Kinds): Promise<void> {
  const { workspaceId } = runner.workspace
  const egress = { workspace_id: workspaceId, egress: { allow: [fakeServers.host] } }
  expect((await runner.call('POST', '/v1/services/configure', egress)).status).toBe(200)
  const source = 'export default ({ n }: { n: number }) => 2 * n'
  const deployed = await runner.call('POST', '/v1/functions', {
    workspace_id: workspaceId,
    name: 'kinds',
    source,
  })
  expect(deployed.status, JSON.stringify(deployed.body)).toBe(201)
  for (const kind of KINDS) await runner.publish(`kind-${kind.name}`, sourceOf(kind, { runner, fakeServers }))
}

function sourceOf({ name, head = '', tasks, end = '' }: Kind, kinds: Kinds): string {
  const document = `document: { dsl: '1.0.3', namespace: kinds, name: kind-${name}, version: '1.0.0' }\n`
  return `${document}${head}do:\n${typeof tasks === 'string' ? tasks : tasks(kinds)}\n${end}`
}

/** Runs one and checks its outcome. @returns the execution */
export async function runKind(
  { name, input = {}, command, status = 'completed', output }: Kind,
  kinds: Kinds,
) {
  const { runner } = kinds
  const { id } = await runner.start(`kind-${name}`, typeof input === 'function' ? input(kinds) : input)
  await command?.(kinds, id)
  const run = await runner.ended(id)
  expect([name, run.status, run.output], JSON.stringify(run.error)).toEqual([name, status, output])
  return run
}

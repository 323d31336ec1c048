/** Shows admins which servers behind the platform work, and which routes stand still without them. */

import Type from 'typebox'
import { adminOperation, Input, OptionalTime, Time } from '../../access/operation-builders.ts'
import { readHealth } from '../../access/scope-services.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_TIME } from '../../core/components/examples.ts'
import { VIEWERS } from '../../core/policy.ts'
import { FAILURES, type FailureKind } from '../../infra/health-report.ts'

const PartStatus = Type.Object({
  name: Type.String({
    description:
      'Part of the installation: `postgres`, `temporal`, `s3`, `valkey`, `mongodb`, or a check of the process. Problems with the code `dependency_unavailable` name it as `part`.',
  }),
  required: Type.Boolean({
    description:
      'True if the process gets no requests without the part. Without any other part, only routes that need it answer 503.',
  }),
  status: Type.Enum(['pass', 'fail']),
  cause: Type.Optional(
    Type.Enum(Object.keys(FAILURES) as FailureKind[], { description: 'Reason of the failure.' }),
  ),
  detail: Type.Optional(Type.String({ description: 'Finding and next step, in a sentence.' })),
  since: Time,
  ms: Type.Integer({ description: 'Milliseconds of the last check.' }),
})

const Status = component(
  'Status',
  Type.Object({
    status: Type.Enum(['pass', 'warn', 'fail'], {
      description:
        'State of the installation as the process that answers sees it. `warn`: a part that is not required fails, or a task queue has no worker. `fail`: balancers send this process no further requests.',
    }),
    draining: Type.Boolean({ description: 'True if the process that answers is about to end.' }),
    parts: Type.Array(PartStatus),
    idle_queues: Type.Array(
      Type.Object({
        queue: Type.String(),
        since: OptionalTime,
        detail: Type.String({ description: 'Finding and next step, in sentences.' }),
      }),
      { description: 'Task queues that no worker polls.' },
    ),
  }),
  {
    status: 'pass',
    draining: false,
    parts: [{ name: 'postgres', required: true, status: 'pass', since: EXAMPLE_TIME.created, ms: 2 }],
    idle_queues: [],
  },
)

export const getStatus = adminOperation({
  name: 'status.get',
  summary: 'Read the state of the servers behind the platform, as the process that answers sees it',
  roles: VIEWERS,
  input: Input({}),
  output: Status,
  http: { method: 'GET', path: '/v1/status' },
  // Otherwise it would not answer when it is needed.
  chargedWithoutStore: true,
  run: async (scope) => {
    const { status, draining, parts, idleQueues } = await readHealth(scope)
    return { status, draining, parts: [...parts], idle_queues: [...idleQueues] }
  },
})

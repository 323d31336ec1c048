/** Shows admins which servers behind the platform work, and which routes stand still without them. */

import Type from 'typebox'
import { adminOperation, Input, OptionalTime, Time } from '../../access/operation-builders.ts'
import { readHealth } from '../../access/scope-services.ts'
import { FAILURES, type FailureKind } from '../../core/health.ts'
import { ADMINS } from '../../core/policy.ts'

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
    Type.Enum(Object.keys(FAILURES) as FailureKind[], { description: 'Why the check fails.' }),
  ),
  detail: Type.Optional(Type.String({ description: 'What the check has found, and the next step.' })),
  since: Time,
  ms: Type.Integer({ description: 'Milliseconds of the last check.' }),
})

const Status = Type.Object({
  status: Type.Enum(['pass', 'warn', 'fail'], {
    description:
      '`warn`: a part that is not required fails, or a task queue has no worker. `fail`: the process that answers gets no further requests from a balancer.',
  }),
  draining: Type.Boolean({ description: 'True if the process that answers is about to end.' }),
  parts: Type.Array(PartStatus),
  idle_queues: Type.Array(
    Type.Object({
      queue: Type.String(),
      since: OptionalTime,
      detail: Type.String({ description: 'What stands still, and the next step.' }),
    }),
    { description: 'Task queues that no worker polls.' },
  ),
})

export const getStatus = adminOperation({
  name: 'status.get',
  summary: 'Read the state of the servers behind the platform, as the process that answers sees it',
  roles: ADMINS,
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

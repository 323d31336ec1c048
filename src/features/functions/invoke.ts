/** Invokes functions and waits for their results. */

import Type, { type Static } from 'typebox'
import { Id, Input, Ref, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { workflowsOf } from '../../access/scope-services.ts'
import { checkJson } from '../../core/json.ts'
import { DATA_ROLES, isPublicRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionTrigger, Json, SecretNames, WorkCaller } from '../../core/work.ts'
import { actorWithoutRights, callTrigger } from '../runs/caller.ts'
import { AliasName, VersionNumber } from '../version-aliases.ts'
import { FUNCTION_LIMITS } from './limits.ts'
import { receiveResult } from './runs/direct-result.ts'
import { operationPath, readOperation } from './runs/run-operation.ts'
import { type StartedRun, startRun } from './runs/start-run.ts'

const invokeInput = {
  id: Ref('function, or its name, or `name@alias`'),
  input: Type.Optional(Type.Unknown({ description: 'Input of the function. Default: an empty object.' })),
}

const invokeOutput = Type.Object({
  run_id: Id('run'),
  result: Type.Unknown({
    description: 'Return value of the function; an operation if the caller does not wait.',
  }),
  accepted: Type.Optional(
    Type.Boolean({
      description: 'True if the run continues without the caller; `result` is then an operation.',
    }),
  ),
})

export const invokeFunction = workspaceOperation({
  name: 'function.invoke',
  summary: 'Invoke a function and wait for its result, or start an asynchronous run',
  roles: DATA_ROLES,
  waits: true,
  input: Input({
    ...invokeInput,
    version: Type.Optional(VersionNumber),
    alias: Type.Optional(AliasName),
    respond_async: Type.Optional(
      Type.Boolean({
        description:
          'True if the response is 202 with an operation that later has the `result` (`Prefer: respond-async`). Default: `false`.',
      }),
    ),
  }),
  output: invokeOutput,
  http: {
    method: 'POST',
    path: '/v1/functions/{id}/invoke',
    body: 'input',
    replyBody: 'result',
    replyHeaders: { run_id: 'x-run-id' },
    headers: { respond_async: 'prefer' },
    status: ({ accepted }) => (accepted ? 202 : 200),
    also: [202],
    location: ({ accepted, run_id }) => (accepted ? operationPath(run_id) : undefined),
  },
  run: (scope, invocation) => invoke(scope, invocation, callTrigger(scope)),
})

/** `function.invoke` for a flow whose input has handles of secrets, which the sandbox replaces by their values. */
export const invokeWithSecrets = (secrets: SecretNames): typeof invokeFunction => ({
  ...invokeFunction,
  run: (scope, invocation) => invoke(scope, { ...invocation, secrets }, callTrigger(scope)),
})

/** `function.invoke` of a fixed version, for MCP tools: a redeployed function does not change what is published. */
export const invokeVersion = workspaceOperation({
  ...invokeFunction,
  input: Input({
    ...invokeInput,
    version: Type.Integer({ minimum: 1 }),
    context: Type.Optional(Type.Object({}, { additionalProperties: true })),
    server_id: Id('mcp'),
  }),
  output: invokeOutput,
  run: (scope, { server_id, ...invocation }) => {
    const caller = actorWithoutRights(scope.actor)
    return invoke(scope, { ...invocation, caller }, { kind: 'mcp', id: server_id })
  },
})

interface InvokeRequest {
  readonly id: string
  readonly input?: unknown
  /** Members of the second argument of the function. */
  readonly context?: object
  /** By default the active version. */
  readonly version?: number
  readonly alias?: string
  readonly secrets?: SecretNames
  readonly respond_async?: boolean
  /** By default the actor of the scope. */
  readonly caller?: WorkCaller
}

async function invoke(
  scope: WorkspaceScope,
  { id, input = {}, version, alias, context, secrets, respond_async: isAsync = false, caller }: InvokeRequest,
  trigger: FunctionTrigger,
): Promise<Static<typeof invokeOutput>> {
  checkJson('input', input, FUNCTION_LIMITS.inputBytesMax)
  const runId = scope.newId('run')
  const start = () =>
    startRun(scope, {
      id,
      runId,
      input: input as Json,
      trigger,
      isAsync,
      ...(version !== undefined && { version }),
      ...(alias !== undefined && { alias }),
      ...(context !== undefined && { context: context as Json }),
      ...(secrets !== undefined && { secrets }),
      ...(caller !== undefined && { caller }),
    })
  if (!isAsync) return { run_id: runId, result: await awaitResult(scope, runId, start) }
  await start()
  return { run_id: runId, result: await readOperation(scope, runId, 0), accepted: true }
}

/** Starts a run and waits for its result, which Temporal and the worker tell. @throws Problem as the run does */
async function awaitResult(
  scope: WorkspaceScope,
  runId: string,
  start: () => Promise<StartedRun>,
): Promise<unknown> {
  const direct = receiveResult(scope, runId)
  const isDone = new AbortController()
  try {
    const durableResult = start().then(({ workflowId, waitMs }) =>
      workflowsOf(scope)
        .result(workflowId, waitMs, isDone.signal)
        .catch((error: unknown) => {
          throw error instanceof Problem ? forCaller(error, scope, runId) : error
        }),
    )
    // A run may end before its start is confirmed.
    return await Promise.race([direct.received, durableResult])
  } finally {
    direct.close()
    isDone.abort()
  }
}

/** Hides the output and the location of the failure from anon keys and users. */
export function forCaller(problem: Problem, scope: WorkspaceScope, runId: string): Problem {
  const { code, detail, members } = problem
  return new Problem(code, {
    ...(detail !== undefined && { detail }),
    members: { ...(!isPublicRole(scope.actor.role) && members), run_id: runId },
    headers: { 'x-run-id': runId },
    cause: problem.cause,
  })
}

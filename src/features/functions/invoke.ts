/** Invokes functions and waits for their results. */

import Type from 'typebox'
import { Id, Input, Ref, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { workflowsOf } from '../../access/scope-services.ts'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { DATA_ROLES, isPublicRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionTrigger, Json, SecretNames } from '../../core/work.ts'
import { callTrigger } from './runs/run.ts'
import { startRun } from './runs/start-run.ts'

const invokeInput = {
  id: Ref('function, or its name'),
  input: Type.Optional(
    Type.Unknown({ description: 'What the function is called with; an empty object where absent.' }),
  ),
}

const invokeOutput = Type.Object({
  run_id: Id('run'),
  result: Type.Unknown({ description: 'What the function returned.' }),
})

export const invokeFunction = workspaceOperation({
  name: 'function.invoke',
  summary: 'Invoke a function and wait for its result',
  roles: DATA_ROLES,
  input: Input(invokeInput),
  output: invokeOutput,
  http: {
    method: 'POST',
    path: '/v1/functions/{id}/invoke',
    body: 'input',
    replyBody: 'result',
    replyHeaders: { run_id: 'x-run-id' },
  },
  run: (scope, invocation) => invoke(scope, invocation, callTrigger(scope.actor)),
})

/** `function.invoke` for a flow whose input has handles of secrets, which the sandbox replaces by their values. */
export const invokeLending = (secrets: SecretNames): typeof invokeFunction => ({
  ...invokeFunction,
  run: (scope, invocation) => invoke(scope, { ...invocation, secrets }, callTrigger(scope.actor)),
})

/** `function.invoke` of a fixed version, for MCP tools: a redeployed function does not change what is published. */
export const invokeVersion = workspaceOperation({
  ...invokeFunction,
  input: Input({
    ...invokeInput,
    version: Type.Integer({ minimum: 1 }),
    context: Type.Optional(Type.Object({}, { additionalProperties: true })),
  }),
  output: invokeOutput,
  run: (scope, invocation) => invoke(scope, invocation, { kind: 'mcp' }),
})

interface InvokeRequest {
  readonly id: string
  readonly input?: unknown
  /** Members of the second argument of the function. */
  readonly context?: object
  /** By default the active version. */
  readonly version?: number
  readonly secrets?: SecretNames
}

async function invoke(
  scope: WorkspaceScope,
  { id, input = {}, version, context, secrets }: InvokeRequest,
  trigger: FunctionTrigger,
): Promise<{ run_id: string; result: unknown }> {
  checkJson('input', input, LIMITS.functionInputBytesMax)
  const { runId, workflowId, waitMs } = await startRun(scope, {
    id,
    input: input as Json,
    trigger,
    isAsync: false,
    ...(version !== undefined && { version }),
    ...(context !== undefined && { context: context as Json }),
    ...(secrets !== undefined && { secrets }),
  })
  try {
    return { run_id: runId, result: await workflowsOf(scope).result(workflowId, waitMs) }
  } catch (error) {
    throw error instanceof Problem ? forCaller(error, scope, runId) : error
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

/** Executions that somebody stops for a while, and mends while they stand still. */

import Type from 'typebox'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { RunPatch, RunPause } from '../../core/run.ts'
import { Input, inWorkspace } from '../kinds.ts'
import { entryOf, findOpen, refuseDecidedBelow, Step, Target, tell } from './commands.ts'
import { FLOWS } from './definitions.ts'
import { Execution } from './executions.ts'

export const pauseExecution = inWorkspace({
  name: 'execution.pause',
  summary: 'Pause an execution: calls under way end, nothing else begins; its limits of time stand still',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ...Target,
    reason: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: LIMITS.suspension.reasonCharsMax,
        pattern: '^[^\\u0000-\\u001f]*$',
      }),
    ),
  }),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/executions/{id}/pause`, body: '*' },
  run: async (scope, { id, reason = null }) => {
    const { workflow_id } = await findOpen(scope, id)
    const value: RunPause = { paused: true, reason }
    return tell(scope, { id, workflow_id }, { name: 'pause', value })
  },
})

export const resumeExecution = inWorkspace({
  name: 'execution.resume',
  summary: 'Let an execution that is paused go on',
  roles: ADMINS,
  stability: 'preview',
  input: Input(Target),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/executions/{id}/resume`, body: '*' },
  run: async (scope, { id }) => {
    const { workflow_id } = await findOpen(scope, id)
    const value: RunPause = { paused: false, reason: null }
    return tell(scope, { id, workflow_id }, { name: 'pause', value })
  },
})

export const patchExecution = inWorkspace({
  name: 'execution.patch_data',
  summary: 'Mend the data of an execution that is paused, or of which a step is held',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ...Target,
    context: Type.Optional(Type.Unknown({ description: 'A merge patch (RFC 7396) of `$context`.' })),
    step: Step,
    input: Type.Optional(
      Type.Unknown({ description: 'The input of a step that is held, for when it is tried again.' }),
    ),
  }),
  output: Execution,
  http: { method: 'POST', path: `${FLOWS}/executions/{id}/patch-data`, body: '*' },
  run: async (scope, { id, context, step, input }) => {
    if (context === undefined && input === undefined)
      throw new Problem('validation_failed', { detail: 'Give `context`, or the `input` of a step.' })
    for (const [name, value] of Object.entries({ context, input }))
      if (value !== undefined) checkJson(name, value, LIMITS.runInputBytesMax)
    const { workflow_id } = await findOpen(scope, id)
    await refuseDecidedBelow(scope, id)
    const held = input === undefined ? {} : { step: await entryOf(scope, id, undefined, step), input }
    const by = scope.actor.subject
    const value = { by, ...(context !== undefined && { context }), ...held } as RunPatch
    return tell(scope, { id, workflow_id }, { name: 'patch', value })
  },
})

/** Results of tools over executions: the state of an execution, its requests to the starter, and how a call follows it. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { isObject } from '../../../core/json.ts'
import type { Approval } from '../../flows/approvals/approval-shape.ts'
import { ownLinks } from '../../flows/approvals/own-links.ts'
import type { Execution } from '../../flows/executions/executions.ts'
import { followExecution } from '../../flows/executions/follow.ts'
import type { InputRequest, InputResponses, RequestedInput, WaitOptions } from '../calls/call-client.ts'
import { acceptedFields } from '../calls/client-requests.ts'
import type { ExecutionState, JsonSchema, ToolOutput } from '../tool.ts'

/** The schema of results of all tools that concern an execution. */
export const EXECUTION_RESULT: JsonSchema = {
  type: 'object',
  properties: {
    execution: { type: 'string', description: 'Id of the execution, for the tools execution_….' },
    status: {
      type: 'string',
      enum: ['pending', 'running', 'waiting', 'suspended', 'completed', 'faulted', 'cancelled'],
      description:
        'Status of the execution; the last three are final. `waiting`: for time, an event, or an approval.',
    },
    cancelling: {
      type: 'boolean',
      description: 'True if the execution is being cancelled and has not ended yet.',
    },
    step: { type: 'string', description: 'Name of the step that runs.' },
    approvals: {
      type: 'array',
      description:
        'Decisions that the execution waits for. You may decide those with `yours` by execution_answer.',
      items: {
        type: 'object',
        properties: {
          approval: { type: 'string' },
          title: { type: 'string' },
          approvers: { type: 'array', items: { type: 'string' } },
          yours: { type: 'boolean' },
          link: { type: 'string', description: 'Page where your user decides.' },
          form: {
            description: 'JSON Schema of `form` in execution_answer.',
            type: ['object', 'boolean', 'null'],
          },
        },
      },
    },
    output: { description: 'Output of a completed execution.' },
    error: { description: 'Error of a faulted execution.' },
  },
  required: ['execution', 'status'],
}

/** The state of an execution, for its starter. Workflow ids and other steps are for admins. */
export function executionOutput(execution: Execution & { readonly cancelling?: true }): ToolOutput {
  const { id, status, output, error, started_by, approvals = [], cancelling } = execution
  const requestedInput = requestedDecisions(execution)
  const inputRequests = requestedInput?.requests
  const state = { ...stateOf(execution), ...(inputRequests && { inputRequests }) }
  if (execution.ended_at !== null) {
    const result = status === 'completed' ? { output } : { error }
    return { output: { execution: id, status, ...result }, failed: status === 'faulted', execution: state }
  }
  const step = openStep(execution)
  const shownApprovals = approvals.map((approval) => ({
    approval: approval.id,
    title: approval.title ?? '',
    approvers: approval.approvers,
    yours: isAddressedTo(started_by, approval),
    form: approval.form,
    ...linkIn(approval),
  }))
  const waiting = {
    execution: id,
    status,
    ...(cancelling && { cancelling }),
    ...(step !== undefined && { step }),
    ...(shownApprovals.length > 0 && { approvals: shownApprovals }),
  }
  return { output: waiting, failed: false, execution: state, ...(requestedInput && { requestedInput }) }
}

/** An approval, with a link for the user of its client. */
type ApprovalWithLink = Approval & { readonly link?: string | undefined }

const linkIn = ({ link }: ApprovalWithLink) => (link === undefined ? {} : { link })

const openStep = ({ steps = [] }: Execution) => steps.findLast(({ ended_at }) => ended_at === null)?.name

function stateOf({ id, status, started_at, ended_at, steps = [] }: Execution): ExecutionState {
  const last = steps.at(-1)
  return {
    id,
    status,
    startedAt: started_at,
    updatedAt: ended_at ?? last?.ended_at ?? last?.started_at ?? started_at,
  }
}

/** The decisions of the client's user that an execution waits for, as requests to the client. */
function requestedDecisions({ id, started_by, approvals = [] }: Execution): RequestedInput | undefined {
  const own = approvals.filter((approval) => isAddressedTo(started_by, approval))
  if (own.length === 0) return undefined
  const requests = Object.fromEntries(own.map((approval) => [approval.id, decisionRequest(approval)]))
  return { requests, state: { execution: id }, isOptional: true }
}

/** Elicitation takes flat objects of simple values, so another form is left to `execution_answer`. */
function decisionRequest({ title, step, flow, form }: Approval): InputRequest {
  const { properties = {}, required = [] } = (isObject(form) ? form : {}) as FlatForm
  const isFlat = Object.values(properties).every((field) => SIMPLE.has(String(Object(field)['type'])))
  return {
    method: 'elicitation/create',
    params: {
      mode: 'form',
      message: title ?? `${step} of ${flow}`,
      requestedSchema: {
        type: 'object',
        properties: {
          ...(isFlat && properties),
          [APPROVED]: { type: 'boolean', title: 'Approve', description: 'false rejects it.' },
        },
        required: [APPROVED, ...(isFlat ? required : [])],
      },
    },
  }
}

interface FlatForm {
  readonly properties?: Readonly<Record<string, unknown>>
  readonly required?: readonly string[]
}
const SIMPLE: ReadonlySet<string> = new Set(['string', 'number', 'integer', 'boolean'])
/** No field of a form has this name. */
const APPROVED = '_approved'

/** The decisions in the responses of a client. Only an accepted elicitation decides: a declined or closed one leaves it open. */
export function decisionsOf(responses: InputResponses) {
  return Object.entries(responses).flatMap(([approval, response]) => {
    const fields = acceptedFields(response)
    if (fields === undefined) return []
    const { [APPROVED]: approved, ...form } = fields
    return [{ approval, approved: approved === true, ...(Object.keys(form).length > 0 && { form }) }]
  })
}

interface FollowOptions extends WaitOptions {
  readonly output: Execution
  /** Also stops at decisions of other people. */
  readonly stopsAtApprovals?: boolean
}

/**
 * Waits until an execution has ended, waits for a decision of its starter, or the time is over. Progress is the number of
 * steps that have begun.
 */
export async function awaitExecution(
  scope: WorkspaceScope,
  { output, seconds, signal, onProgress, stopsAtApprovals = false }: FollowOptions,
): Promise<Execution> {
  if (output.ended_at !== null) return output
  let reported = -1
  const execution =
    seconds === 0
      ? output
      : await followExecution(scope, {
          id: output.id,
          waitMs: seconds * 1_000,
          ...(signal && { signal }),
          onChange: (now) => {
            const begun = now.steps_omitted?.total ?? now.steps?.length ?? 0
            // A short step may have ended before it is seen.
            const step = openStep(now) ?? now.steps?.at(-1)?.name
            if (begun > reported) onProgress?.({ progress: begun, message: step ?? now.status })
            reported = Math.max(begun, reported)
            return (
              requestedDecisions(now) !== undefined || (stopsAtApprovals && (now.approvals ?? []).length > 0)
            )
          },
        })
  return withLinks(scope, execution)
}

/** Adds links for the user of the client to the approvals that the user, but not the client, may decide. */
async function withLinks(scope: WorkspaceScope, execution: Execution): Promise<Execution> {
  const { approvals = [] } = execution
  if (approvals.every((approval) => isAddressedTo(execution.started_by, approval))) return execution
  const links = await ownLinks(scope, execution.id)
  return {
    ...execution,
    approvals: approvals.map((approval) => ({ ...approval, link: links.get(approval.id) })),
  }
}

/** An approval that names people is for the people: a model does not decide for them. */
export const isAddressedTo = (subject: string, { approvers, excluded }: Approval) =>
  approvers.includes(subject) && !excluded.includes(subject)

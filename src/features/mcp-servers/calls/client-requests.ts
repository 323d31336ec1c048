/**
 * Requests of a tool to its client (MCP 2026-07-28, "Multi Round-Trip Requests"): checks them, seals the state that travels
 * with them, and checks the responses.
 */

import Type from 'typebox'
import { Compile } from 'typebox/compile'
import type { Budget } from '../../../../flows-dsl/budget.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { decryptFor, encryptFor } from '../../../access/scope-services.ts'
import { isObject } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { isSecretName, namesSecret } from '../../../core/redact.ts'
import { checkBudget, errorsWithin } from '../../schema-errors.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { JsonSchema } from '../tool.ts'
import type {
  CallClient,
  InputRequest,
  InputRequests,
  InputResponses,
  ReceivedInput,
  RequestedInput,
} from './call-client.ts'

/** Requests to a client, with the sealed state that it returns. */
export interface SealedInputRequests {
  readonly inputRequests: InputRequests
  /** Encrypted, base64url. */
  readonly requestState: string
}

/** Answers a call with a JSON-RPC error in place of a result. */
export class RpcRefusal extends Error {
  override name = 'RpcRefusal'
  readonly code: number
  readonly data: unknown

  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.code = code
    this.data = data
  }
}

/** JSON-RPC 2.0 "Invalid params". */
export const INVALID_PARAMS = -32_602
export const INTERNAL_ERROR = -32_603
/** MCP 2026-07-28: the client has not declared a capability that the request needs. */
export const MISSING_CAPABILITY = -32_021

/** Binds a state to the call that it belongs to. */
export interface CallIdentity {
  readonly serverId: string
  readonly version: number
  readonly tool: string
  readonly principal: string | null
  readonly argumentsSha256: string
}

const Params = Type.Record(Type.String(), Type.Unknown())
const InputRequiredResult = Type.Object(
  {
    resultType: Type.Literal('input_required'),
    inputRequests: Type.Record(
      Type.String({ pattern: '^[A-Za-z0-9_.-]{1,64}$' }),
      Type.Object(
        {
          method: Type.Union(
            ['elicitation/create', 'sampling/createMessage', 'roots/list'].map((name) => Type.Literal(name)),
          ),
          params: Type.Optional(Params),
        },
        { additionalProperties: false },
      ),
      // Without it, a name of another form would be left unchecked.
      { minProperties: 1, maxProperties: MCP_LIMITS.inputRequestsMax, additionalProperties: false },
    ),
    requestState: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
)
const INPUT_REQUIRED_RESULT = Compile(InputRequiredResult)

/** Reads the result `input_required` of a function. @returns undefined for a result of another form, or with other members */
export function readInputRequired(result: unknown): RequestedInput | undefined {
  if (!INPUT_REQUIRED_RESULT.Check(result)) return undefined
  const { inputRequests, requestState = null } = result
  const requests = Object.fromEntries(
    Object.entries(inputRequests).map(([name, { method, params = {} }]) => [name, { method, params }]),
  )
  return { requests: requests as Record<string, InputRequest>, state: requestState, isOptional: false }
}

/** The capability that a client needs for a request. `elicitation: {}` stands for forms alone (2025-11-25, "Elicitation"). */
function neededCapability({ method, params }: InputRequest): readonly [name: string, mode?: string] {
  if (method === 'elicitation/create') return ['elicitation', params['mode'] === 'url' ? 'url' : 'form']
  return method === 'sampling/createMessage' ? ['sampling'] : ['roots']
}

function isDeclared(capabilities: Readonly<Record<string, unknown>>, name: string, mode?: string): boolean {
  const declared = capabilities[name]
  if (!isObject(declared) || mode === undefined) return isObject(declared)
  return isObject(declared[mode]) || (mode === 'form' && !isObject(declared['url']))
}

/** The capabilities that the requests need and the client has not declared, as in `data` of the error. */
export function missingCapabilities(
  requests: InputRequests,
  capabilities: Readonly<Record<string, unknown>>,
): Readonly<Record<string, object>> {
  const missing = Object.values(requests)
    .map(neededCapability)
    .filter(([name, mode]) => !isDeclared(capabilities, name, mode))
  return Object.fromEntries(missing.map(([name, mode]) => [name, mode === 'url' ? { url: {} } : {}]))
}

/** True if the client takes the requests within its call. */
export const takesRequests = ({ requests }: RequestedInput, client: CallClient | undefined): boolean =>
  client?.capabilities !== undefined &&
  !client.takesTasks &&
  Object.keys(missingCapabilities(requests, client.capabilities)).length === 0

/** The user has declined, or closed the form: the same is not requested again at once. */
export const isDeclined = ({ responses }: ReceivedInput): boolean =>
  Object.values(responses).some((response) => {
    const result = readElicitResult(response)
    return result !== undefined && result.action !== 'accept'
  })

/**
 * Finds a request that must not be sent: a form that asks for a secret, or a page outside the platform (MCP, "Elicitation",
 * security considerations).
 * @param origin of the platform
 * @returns the reason for the first one
 */
export function refusalOf({ requests }: RequestedInput, origin: string): string | undefined {
  for (const [name, { method, params }] of Object.entries(requests)) {
    if (method !== 'elicitation/create') continue
    const { mode = 'form', url, requestedSchema } = params
    if (mode !== 'form' && mode !== 'url') return `${name} asks in a mode that is neither form nor url.`
    if (mode === 'url' && !(URL.canParse(String(url)) && new URL(String(url)).origin === origin))
      return `${name} asks the user to open a page of another host than ${origin}.`
    // Forms are flat, but clients may show nested fields all the same.
    if (!namesSecret(requestedSchema)) continue
    const field = Object.keys(Object(Object(requestedSchema).properties)).find(isSecretName)
    return `${name} asks for ${field ?? 'a secret'}, and forms must not ask for secrets.`
  }
  return undefined
}

interface State {
  readonly call: CallIdentity
  readonly requests: InputRequests
  readonly state: unknown
  /** Milliseconds since 1970. */
  readonly expires: number
}

const PURPOSE = 'mcp-request-state'

/** @throws Problem `output_too_large` if the requests and the state are too large to travel */
export function seal(
  scope: WorkspaceScope,
  call: CallIdentity,
  { requests, state }: RequestedInput,
): SealedInputRequests {
  const sealed: State = { call, requests, state, expires: Date.now() + MCP_LIMITS.requestStateMs }
  const text = JSON.stringify(sealed)
  if (text.length > MCP_LIMITS.requestStateCharsMax) {
    const detail = `The tool asks its client with more than ${MCP_LIMITS.requestStateCharsMax} characters, its state included.`
    throw new Problem('output_too_large', { detail })
  }
  const requestState = encryptFor(scope, PURPOSE, Buffer.from(text)).toString('base64url')
  return { inputRequests: requests, requestState }
}

/**
 * Reads the responses of a client to the requests in its state.
 * @returns undefined without a state; `missing` if a request has no valid response: all are sent again
 * @throws RpcRefusal if the state is not of this call, was changed, or has expired
 */
export function readResponses(
  scope: WorkspaceScope,
  call: CallIdentity,
  { requestState, inputResponses }: CallClient,
): { readonly received: ReceivedInput } | { readonly missing: RequestedInput } | undefined {
  if (requestState === undefined) return undefined
  const { requests, state } = unseal(scope, call, requestState)
  const responses = completeResponses(requests, inputResponses)
  return responses === undefined
    ? { missing: { requests, state, isOptional: false } }
    : { received: { responses, state } }
}

/**
 * Reads responses that a client has sent ahead of the requests. They have no effect until the tool makes its requests.
 * @returns undefined unless they are complete, and valid for these requests
 */
export function readEarlyResponses(
  requested: RequestedInput | undefined,
  client: CallClient | undefined,
): ReceivedInput | undefined {
  if (requested === undefined || requested.isOptional || client?.inputResponses === undefined)
    return undefined
  const responses = completeResponses(requested.requests, client.inputResponses)
  return responses && { responses, state: requested.state }
}

/** The responses to the requests; undefined unless each request has a valid one. */
function completeResponses(requests: InputRequests, inputResponses: unknown): InputResponses | undefined {
  const responses = validResponses(requests, inputResponses)
  return Object.keys(responses).length === Object.keys(requests).length ? responses : undefined
}

/** The valid responses to the requests. All checks share one budget, since the forms come from tenants. */
export function validResponses(requests: InputRequests, inputResponses: unknown): InputResponses {
  const received = isObject(inputResponses) ? inputResponses : {}
  const budget = checkBudget()
  return Object.fromEntries(
    Object.entries(requests).flatMap(([name, request]) =>
      Object.hasOwn(received, name) && isValidResponse(request, received[name], budget)
        ? [[name, received[name]]]
        : [],
    ),
  )
}

function unseal(scope: WorkspaceScope, call: CallIdentity, sealed: unknown): State {
  try {
    const text = decryptFor(scope, PURPOSE, Buffer.from(String(sealed), 'base64url')).toString()
    const state: State = JSON.parse(text)
    const isOwn = Object.entries(call).every(
      ([key, value]) => state.call[key as keyof CallIdentity] === value,
    )
    if (isOwn && state.expires > Date.now()) return state
  } catch {
    // A changed state and one of another workspace get the same error, so that a client cannot tell them apart.
  }
  throw new RpcRefusal(
    INVALID_PARAMS,
    'requestState is not of this call, or has expired. Call the tool without it.',
  )
}

/** An elicitation that is accepted has content of the requested form; other responses are checked by the tool. */
function isValidResponse({ method, params }: InputRequest, response: unknown, budget: Budget): boolean {
  if (method !== 'elicitation/create') return isObject(response)
  const result = readElicitResult(response)
  if (result?.action !== 'accept') return result !== undefined
  const schema = params['requestedSchema']
  if (!isObject(schema)) return true
  return errorsWithin(schema as JsonSchema, result.content ?? {}, budget).length === 0
}

/** `content` is not validated, and may be missing; only an accepted elicitation has it. */
type ElicitResult =
  | { readonly action: 'accept'; readonly content: unknown }
  | { readonly action: 'decline' | 'cancel' }

/** The result of an elicitation (MCP, "Elicitation", `ElicitResult`). @returns undefined if a response of a client is none */
function readElicitResult(response: unknown): ElicitResult | undefined {
  if (!isObject(response)) return undefined
  const { action, content } = response
  if (action === 'accept') return { action, content }
  return action === 'decline' || action === 'cancel' ? { action } : undefined
}

/** The fields of an accepted form; undefined if the user has not accepted it, or the response has no fields. */
export function acceptedFields(response: unknown): Readonly<Record<string, unknown>> | undefined {
  const result = readElicitResult(response)
  return result?.action === 'accept' && isObject(result.content) ? result.content : undefined
}

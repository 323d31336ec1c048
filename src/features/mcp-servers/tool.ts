/** The shape of a tool (candidate and frozen form), its names, digests, providers, and checks of its texts. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { hiddenIn } from '../../core/text/visible-text.ts'
import type { Annotations } from '../../core/tool-annotations.ts'
import type {
  CallClient,
  InputRequests,
  Progress,
  ReceivedInput,
  RequestedInput,
  WaitOptions,
} from './calls/call-client.ts'
import type { Content } from './calls/content.ts'
import { MCP_LIMITS } from './limits.ts'
import type { JsonSchema } from './tool-name.ts'

export { digest, type JsonSchema, toolName } from './tool-name.ts'

/** Which operation a tool runs, and the part of its input that the tool's caller does not choose. */
interface Binding {
  readonly source: string
  readonly operation: string
  readonly fixed: Readonly<Record<string, unknown>>
  /** The tool's arguments are together one member of the input: the fields of a document, or the input of a function or flow. */
  readonly arguments?: 'fields' | 'input'
  /** Arguments that are no fields, and have `_` in front of their name since the collection has fields of these names. */
  readonly renamed?: readonly string[]
  /** The schemas of the fields that conditions may compare, by path. */
  readonly comparable?: Readonly<Record<string, JsonSchema>>
  /** How long a call follows the execution that it concerns, in seconds. */
  readonly wait_seconds?: number
}

/** A possible tool. `candidate` identifies it in the curation: `<source>:<thing>:<verb>`. */
export interface Candidate {
  readonly candidate: string
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input_schema: JsonSchema
  readonly output_schema?: JsonSchema
  readonly annotations: Annotations
  /** Hints that the upstream server declares for its tool. They take effect only if an admin repeats them in the curation. */
  readonly claimed_annotations?: Annotations
  /** Last part of the scope. Default: the name. */
  readonly scope: string
  readonly risk: 'read' | 'write'
  readonly binding: Binding
}

/** A tool of a published version. */
export interface Tool extends Omit<Candidate, 'risk'> {
  readonly reads: boolean
  /** It is listed also where clients search for tools. */
  readonly pinned?: boolean
  /** The name of its group. */
  readonly group?: string
  readonly preset?: Preset
  readonly limits?: ToolLimits
}

/** Arguments that clients do not choose, or need not. */
export interface Preset {
  readonly fixed: Readonly<Record<string, unknown>>
  readonly defaults: Readonly<Record<string, unknown>>
  readonly hidden: readonly string[]
}

/** Bounds of the calls of a tool, below those of the platform. */
interface ToolLimits {
  readonly result_bytes?: number
  readonly timeout_seconds?: number
  readonly wait_seconds?: number
  /** By all callers together. */
  readonly calls_per_minute?: number
}

/** The most bytes of a result, as JSON. */
export const budgetOf = ({ limits }: Pick<Tool, 'limits'>) =>
  limits?.result_bytes ?? MCP_LIMITS.resultBytesDefault

/** The closed schema of a tool's arguments: the operation's input without fixed fields and fields for HTTP alone. */
export function argumentsOf(operation: AnyOperation, fixed: Readonly<Record<string, unknown>>): JsonSchema {
  const { headers = {}, rest } = operation.http
  const isArgument = ([name]: [string, unknown]) =>
    !Object.hasOwn(fixed, name) && !Object.hasOwn(headers, name) && name !== rest
  const properties = Object.fromEntries(Object.entries(operation.input.properties).filter(isArgument))
  const required = (operation.input.required ?? []).filter((name) => Object.hasOwn(properties, name))
  const schema = { type: 'object', properties, required, additionalProperties: false }
  return JSON.parse(JSON.stringify(schema)) as JsonSchema
}

/** The tokens of English or JSON text of a length, estimated at four characters each. */
export const estimatedTokens = (length: number) => Math.ceil(length / 4)

/** @returns an error for the first hidden character, other than line breaks and tabs */
export function findHidden(text: string, pointer: string): InputError | undefined {
  const detail = hiddenIn(text.replaceAll(/[\n\t]/g, ' '))
  if (detail === undefined) return undefined
  return { in: 'body', name: pointer.split('/')[1] ?? '', pointer, detail }
}

/** @throws Problem `validation_failed` with the first errors, if there are any */
export function rejectErrors(errors: readonly (InputError | undefined)[]): void {
  const found = errors.filter((error) => error !== undefined).slice(0, CORE_LIMITS.diagnosticsReturnedMax)
  if (found.length === 0) return
  const detail = found.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  throw new Problem('validation_failed', { detail, errors: found })
}

/** Makes candidates of one kind, such as tools over collections, and maps their calls to operations. */
export interface ToolProvider {
  /** `source` of the bindings of its tools. */
  readonly name: string
  /** The operations that its tools may run, whatever a manifest contains. */
  readonly operations: readonly AnyOperation[]
  /**
   * @param scope of an admin
   * @param chosen the candidates that are needed, by `candidate` or by name; the provider may return others besides. Default: all
   */
  readonly candidates: (scope: WorkspaceScope, chosen?: readonly string[]) => Promise<Candidate[]>
  /** Runs before each call. @throws Problem if its tools are disabled */
  readonly requireEnabled?: (scope: WorkspaceScope) => Promise<void>
  /**
   * The input of the operation, without fixed fields, for a call. Default: the arguments.
   * @throws Problem if the arguments do not fit together
   */
  readonly input?: (tool: Tool, call: Arguments) => Readonly<Record<string, unknown>>
  /**
   * The input for about a share of the result, which was too large. Only for operations that read.
   * @returns undefined if the result cannot be made smaller
   */
  readonly toSmallerInput?: (
    input: Readonly<Record<string, unknown>>,
    share: number,
  ) => Readonly<Record<string, unknown>> | undefined
  /** The operation of a call whose client wants progress, which it reports while it runs. */
  readonly reporting?: (operation: AnyOperation, onProgress: (progress: Progress) => void) => AnyOperation
  /** Waits for what the operation has started. @returns the output that is there then */
  readonly follow?: (
    scope: WorkspaceScope,
    options: WaitOptions & { readonly output: never },
  ) => Promise<unknown>
  /** The result of the tool for an output of the operation. Default: the output. */
  readonly toToolOutput?: (output: never, form: OutputForm) => ToolOutput
  /** Others than the author of the tool wrote what it returns: it is fenced, and never taken for content of MCP. */
  readonly isUntrusted?: true
  /** The operation of a call whose client has sent {@link ToolOutput.requestedInput}. */
  readonly resume?: (
    tool: Tool,
    call: Arguments & { readonly received: ReceivedInput },
  ) => { readonly operation: AnyOperation; readonly input: Readonly<Record<string, unknown>> }
}

/** The arguments of a call, and its client. */
export interface Arguments {
  readonly args: Readonly<Record<string, unknown>>
  readonly serverId: string
  /** Undefined if it takes no requests. */
  readonly client?: Pick<CallClient, 'capabilities'> | undefined
}

export interface OutputForm {
  /** The result is read as a resource: data as embedded resources, without words for models around them. */
  readonly asResource: boolean
}

export interface ToolOutput {
  readonly output: unknown
  readonly failed: boolean
  /** Content of MCP that is returned in place of the output, by tools without an output schema. */
  readonly content?: readonly Content[]
  readonly requestedInput?: RequestedInput
  /** The execution that the output is of. */
  readonly execution?: ExecutionState
}

export interface ExecutionState {
  readonly id: string
  /** The last three are final. */
  readonly status: 'pending' | 'running' | 'waiting' | 'suspended' | 'completed' | 'faulted' | 'cancelled'
  readonly startedAt: string
  readonly updatedAt: string
  /** Requests of the execution to the principal that started it. */
  readonly inputRequests?: InputRequests
}

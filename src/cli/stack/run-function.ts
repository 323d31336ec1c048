/** `tenon fn run`: runs a function on this machine, in the sandbox of the worker and with its limits, against the running platform. */

import { resolve } from 'node:path'
import { findRunning } from '../../../stack/start.ts'
import { callCounter } from '../../activities/function/call-counter.ts'
import { guardedFetch } from '../../activities/function/guarded-fetch.ts'
import { findMethod } from '../../activities/function/platform-methods.ts'
import { SecretMask } from '../../activities/function/secret-mask.ts'
import { type ByteReply, isByteSource } from '../../core/bytes.ts'
import { checkJson, isObject } from '../../core/json.ts'
import { type AnyOperation, QUERY_NAMES } from '../../core/operation.ts'
import { Problem } from '../../core/problem.ts'
import { isProblemCode } from '../../core/problem-catalogue.ts'
import { durationMs } from '../../core/units.ts'
import type { Json } from '../../core/work.ts'
import { checkWholeConfig } from '../../features/functions/check-config.ts'
import { checkInput, checkOutput, requireExport } from '../../features/functions/check-run.ts'
import { DEFAULTS, type FunctionConfig } from '../../features/functions/config.ts'
import { FunctionEgress } from '../../features/functions/egress.ts'
import { type FunctionConstants, readModule } from '../../features/functions/exported-constants.ts'
import { configureFunction } from '../../features/functions/functions.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import { compileFunction, type EntryPoint } from '../../features/functions/sandbox/compile.ts'
import { Content, type Invocation, type InvocationHost } from '../../features/functions/sandbox/invocation.ts'
import { Functions } from '../../features/functions/sandbox/process-pool.ts'
import { atPosition, originOf, positionIn } from '../../features/functions/source-map.ts'
import { Egress } from '../../infra/http-client/egress.ts'
import { type ApiClient, ApiError } from '../client.ts'
import { type Bundle, SourceError } from '../functions/bundle.ts'
import { readSettings } from '../settings.ts'

export interface LocalRun {
  readonly bundle: Bundle
  readonly input: Json
  /** Members that replace those of the exported configuration; not yet checked. */
  readonly config: unknown
  /** Makes the calls of `context.tenon`, with the rights of its key. */
  readonly client: ApiClient
  /** Prints a line of the code. */
  readonly log: InvocationHost['log']
}

/**
 * Secrets come from variables of the environment with their names.
 * @returns the result as JSON
 * @throws SourceError; Error without Deno or a secret; Problem as a deployment and a run on the worker do
 */
export async function runLocally({ bundle, input, config, client, log }: LocalRun): Promise<Json> {
  const { code, constants, entryPoints } = await compiledModule(bundle)
  const effective = wholeConfig(constants, config)
  const run = { kind: 'call', input, trigger: { kind: 'api' } } as const
  checkJson('input', input, FUNCTION_LIMITS.inputBytesMax)
  requireExport(entryPoints, 'call')
  checkInput(constants.input_schema ?? null, run)
  const secrets = secretsOf(effective)
  const mask = new SecretMask(Object.values(secrets))
  const functions = new Functions(await denoPath())
  try {
    const { result } = await functions.run({
      ...run,
      code: { key: 'local:local:local:1', compiled: code },
      context: {
        run: { id: 'local', attempt: 1 },
        caller: { kind: 'service', id: 'local' },
        env: effective.env,
        secrets,
      },
      timeoutMs: durationMs(effective.timeout),
      memoryMb: effective.memory_mb,
      signal: new AbortController().signal,
      host: hostOf(effective, client, (line) => log({ ...line, text: mask.line(line.text) })),
    } satisfies Invocation)
    checkOutput(constants.output_schema ?? null, run, result)
    return mask.value(result)
  } catch (error) {
    throw mask.failure(atOrigin(error, bundle))
  } finally {
    await functions.close()
  }
}

/** The configuration as a deployment of the function makes it. @throws Problem `validation_failed` */
function wholeConfig(constants: FunctionConstants, source: unknown): FunctionConfig {
  if (!isObject(source))
    throw new Problem('validation_failed', { detail: 'The configuration must be an object.' })
  const { id: _, ...change } = configureFunction.parse({ ...source, id: 'local' })
  const config = { ...DEFAULTS, ...constants.config, ...change }
  checkWholeConfig(config)
  return config
}

/** The error with its place in the files of a bundle. */
function atOrigin(error: unknown, { source_map: bundle }: Bundle): unknown {
  if (!(error instanceof Problem) || bundle === undefined) return error
  const position = positionIn(error)
  return position === undefined ? error : atPosition(error, originOf({ bundle }, position))
}

async function compiledModule({
  source,
  source_map,
}: Bundle): Promise<{ code: string; constants: FunctionConstants; entryPoints: readonly EntryPoint[] }> {
  const compiled = await compileFunction(source, 'local')
  if (compiled.diagnostics !== undefined)
    throw new SourceError(compiled.diagnostics.map(diagnosticText).join('\n'))
  const { code, exported, entryPoints } = compiled
  const { constants, diagnostics } = readModule({
    code,
    exported,
    ...(source_map && { sourceMap: source_map }),
  })
  if (diagnostics.length > 0) throw new SourceError(diagnostics.map(diagnosticText).join('\n'))
  return { code, constants, entryPoints }
}

interface Located {
  readonly file?: string
  readonly line: number
  readonly column: number
  readonly message: string
}

const diagnosticText = ({ file = 'source', line, column, message }: Located): string =>
  `${file}:${line}:${column} ${message}`

async function denoPath(): Promise<string> {
  const path =
    (await readSettings())['TENON_DENO_BIN'] ?? findRunning(resolve('.tenon'))?.env['TENON_DENO_BIN']
  if (path) return path
  throw new Error('Deno is not installed. Set TENON_DENO_BIN, or run `npm start` first.')
}

function secretsOf({ secrets }: FunctionConfig): Record<string, string> {
  return Object.fromEntries(
    secrets.map((name) => {
      const value = process.env[name]
      if (value === undefined)
        throw new Error(`Set the environment variable ${name} to the value of the secret.`)
      return [name, value]
    }),
  )
}

function hostOf(
  { egress, timeout }: FunctionConfig,
  client: ApiClient,
  log: InvocationHost['log'],
): InvocationHost {
  // Servers that the configuration names may be on this machine.
  const allowed = async () => egress
  const guard = new Egress([])
  const route = {
    egress: new FunctionEgress(egress),
    ...{ allowed, allowedNow: allowed, chainDepth: 0 },
    send: guard.send.bind(guard),
  }
  const count = callCounter()
  return {
    log,
    call: async (name, args) => {
      count()
      const { operation, argumentsOf } = findMethod(name)
      return callOperation(client, operation, argumentsOf(args)).catch(throwProblem)
    },
    fetch: async (request) => {
      count()
      return guardedFetch(request, route, { timeoutMs: durationMs(timeout) })
    },
  }
}

/** The code gets the problem of a refused call, as it does on the worker. */
function throwProblem(error: unknown): never {
  if (!(error instanceof ApiError)) throw error
  const { code, detail } = error.problem
  if (!isProblemCode(code)) throw error
  throw new Problem(code, typeof detail === 'string' ? { detail } : {})
}

/** Makes the request of an operation. @returns the JSON of the response, or its bytes */
async function callOperation(
  client: ApiClient,
  { http }: AnyOperation,
  input: Readonly<Record<string, unknown>>,
): Promise<Json | Content> {
  const left = new Map(Object.entries(input))
  const takeField = (name: string) => {
    const value = left.get(name)
    left.delete(name)
    return value
  }
  const path = http.path.replaceAll(/\{(\w+)(\*?)\}/g, (_all, name: string, rest: string) => {
    const text = String(takeField(name))
    return rest === '' ? encodeURIComponent(text) : text.split('/').map(encodeURIComponent).join('/')
  })
  const headers: Record<string, string> = {}
  for (const [field, header] of Object.entries(http.headers ?? {})) {
    const value = takeField(field)
    if (value !== undefined) headers[header] = header === 'prefer' ? `wait=${value}` : String(value)
  }
  const [otherType, otherField] =
    Object.entries(http.otherJson ?? {}).find(([, field]) => left.has(field)) ?? []
  const other = otherField === undefined ? undefined : takeField(otherField)
  if (otherType !== undefined) headers['content-type'] = otherType
  const query = new URLSearchParams()
  for (const field of http.body === '*' ? (http.query ?? []) : [...left.keys()])
    if (field !== http.body && left.has(field)) query.set(parameterOf(field), String(takeField(field)))
  const body = other ?? (http.body === '*' ? Object.fromEntries(left) : http.body && left.get(http.body))
  const sent = { headers, ...bodyOf(http, body, headers) }
  const response = await client.send(http.method, `${path}${query.size > 0 ? `?${query}` : ''}`, sent)
  return http.reply === 'bytes' ? new Content(replyOf(response)) : ((await response.json()) as Json)
}

const parameterOf = (field: string): string => QUERY_NAMES[field] ?? field

/** The body of the request. For an operation that takes bytes, a text is these bytes, as in a run on the worker (`runWithJson`). */
function bodyOf(
  { takes }: AnyOperation['http'],
  body: unknown,
  headers: Record<string, string>,
): { body?: string | ReadableStream } {
  if (body === undefined) return {}
  if (isByteSource(body)) return { body: ReadableStream.from(body.chunks) }
  const isText = takes === 'bytes' && typeof body === 'string'
  headers['content-type'] ??= isText ? 'text/plain; charset=utf-8' : 'application/json'
  return { body: isText ? body : JSON.stringify(body) }
}

function replyOf({ status, headers, body }: Response): ByteReply {
  return {
    status,
    headers: Object.fromEntries(headers),
    ...(body !== null && { chunks: body, discard: () => void body.cancel().catch(() => {}) }),
  }
}

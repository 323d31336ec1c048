/** Calls every operation of the API by its group and name, from one line of the generated table. */

import { frames, type StreamOptions } from './streams.ts'
import { type CallOptions, newKey, type RequestBody, readJson, type Transport } from './transport.ts'

/** A line such as `POST /v1/batches b* qdry_run k`, taken apart. */
interface Operation {
  readonly method: string
  readonly path: string
  /** The field that is the JSON body; `*`: the remaining fields are its members. */
  readonly body?: string
  /** The media type of the JSON body. */
  readonly type: string
  /** The field that is a body of bytes. */
  readonly bytes?: string
  readonly query: readonly string[]
  readonly headers: readonly string[]
  /** The field whose members are further query parameters. */
  readonly rest?: string
  readonly takesKey: boolean
  readonly reply: 'json' | 'stream' | 'bytes' | 'none'
}

type Input = Readonly<Record<string, unknown>>

function parse(line: string): Operation {
  const [method = '', path = '', ...parts] = line.split(' ')
  const of = (mark: string) => parts.find((part) => part[0] === mark)?.slice(1)
  const [body, bytes, rest] = [of('b'), of('B'), of('r')]
  return {
    ...{ method, path, type: of('t') ?? 'application/json' },
    ...(body !== undefined && { body }),
    ...(bytes !== undefined && { bytes }),
    ...(rest !== undefined && { rest }),
    query: of('q')?.split(',') ?? [],
    headers: of('h')?.split(',') ?? [],
    takesKey: parts.includes('k'),
    reply: parts.includes('s')
      ? 'stream'
      : parts.includes('y')
        ? 'bytes'
        : parts.includes('n')
          ? 'none'
          : 'json',
  }
}

/** `page[size]` is the field `page_size`, `if-match` is `if_match`. */
export const fieldOf = (wire: string): string => wire.replace(/[^A-Za-z0-9]+/g, '_').replace(/_$/, '')

const textOf = (value: unknown): string => (Array.isArray(value) ? value.join() : String(value))

function addressOf({ path, query, rest }: Operation, input: Input): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = input[name]
    if (value === undefined || value === '')
      throw new TypeError(`${name} is required: it is part of the address ${path}.`)
    // A key of an object has slashes of its own.
    return encodeURIComponent(String(value)).replaceAll('%2F', name === 'key' ? '/' : '%2F')
  })
  const parameters = new URLSearchParams()
  for (const wire of query) {
    const value = input[fieldOf(wire)]
    if (value !== undefined) parameters.append(wire, textOf(value))
  }
  for (const [name, values] of Object.entries(Object((rest && input[rest]) ?? {})))
    for (const value of [values].flat()) parameters.append(name, String(value))
  return parameters.size === 0 ? filled : `${filled}?${parameters}`
}

/** The fields of the body: those that are neither in the address nor in a header. */
function membersOf({ path, query, headers, rest }: Operation, input: Input): Input {
  const elsewhere = new Set([...[...query, ...headers].map(fieldOf), ...(rest === undefined ? [] : [rest])])
  return Object.fromEntries(
    Object.entries(input).filter(([name]) => !elsewhere.has(name) && !path.includes(`{${name}}`)),
  )
}

function bodyOf(operation: Operation, input: Input): RequestBody | undefined {
  const { body, bytes } = operation
  if (bytes !== undefined) return input[bytes] as RequestBody | undefined
  if (body === undefined) return undefined
  return JSON.stringify(body === '*' ? membersOf(operation, input) : input[body])
}

function headersOf(operation: Operation, input: Input): Record<string, string> {
  const headers: Record<string, string> = {}
  if (operation.body !== undefined) headers['content-type'] = operation.type
  for (const wire of operation.headers) {
    const value = input[fieldOf(wire)]
    if (value !== undefined) headers[wire] = textOf(value)
  }
  return headers
}

function call(
  transport: Transport,
  operation: Operation,
  input: Input = {},
  options: CallOptions & StreamOptions = {},
): unknown {
  const { method, reply, takesKey, bytes } = operation
  const path = addressOf(operation, input)
  if (reply === 'stream') {
    const { last_event_id: lastEventId } = input
    return frames(transport, path, {
      ...(lastEventId !== undefined && { lastEventId: String(lastEventId) }),
      ...options,
    })
  }
  const { idempotencyKey, ...rest } = options
  const body = bodyOf(operation, input)
  const headers = {
    ...headersOf(operation, input),
    ...(takesKey && { 'idempotency-key': idempotencyKey ?? newKey() }),
  }
  // A POST that takes no key changes nothing, or has a body that can be sent once.
  const isRepeatable = bytes === undefined || method === 'PUT'
  const sent = { method, path, headers, isRepeatable, ...(body !== undefined && { body }) }
  return transport.send<unknown>(sent, rest, async (response) => {
    if (reply === 'bytes') return response
    return reply === 'json' ? readJson(response) : undefined
  })
}

/** Groups of methods, which are made when they are first used. */
export function groupsOf(
  transport: Transport,
  table: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Record<string, unknown> {
  const groups: Record<string, unknown> = {}
  for (const [name, lines] of Object.entries(table))
    Object.defineProperty(groups, name, {
      enumerable: true,
      configurable: true,
      get: () => {
        const methods = Object.entries(lines).map(([method, line]) => {
          const operation = parse(line)
          return [
            method,
            (input?: Input, options?: CallOptions) => call(transport, operation, input, options),
          ]
        })
        const group: unknown = Object.fromEntries(methods)
        Object.defineProperty(groups, name, { value: group, enumerable: true })
        return group
      },
    })
  return groups
}

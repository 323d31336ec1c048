/** Builds the request of an operation from the arguments of a tool. No argument leaves its place in the request. */

import type { Outbound } from '../../../../infra/http-client/egress.ts'
import {
  headerOf,
  joinPairs,
  percentDecoded,
  queryPairs,
  segmentOf,
} from '../../../../infra/http-client/parameter-styles.ts'
import { FORM, MULTIPART } from '../../../../infra/openapi/operations.ts'
import { bodyProblem } from '../../../operation-helpers.ts'
import { USER_AGENT } from '../header-names.ts'
import type { Parameter } from './arguments.ts'
import { type Body, type BodyMember, TEXT_MEDIA } from './body.ts'
import type { OpenApiCall } from './read-tools.ts'

type Arguments = Readonly<Record<string, unknown>>

/** A request whose multipart form is not encoded yet. */
type Request = Omit<Outbound, 'body'> & { readonly body?: string | Uint8Array | FormData }

/** Encodes the form of a request (RFC 7578). */
export async function encoded({ body, ...request }: Request): Promise<Outbound> {
  if (!(body instanceof FormData)) return { ...request, ...(body !== undefined && { body }) }
  const form = new Response(body)
  const headers = { ...request.headers, 'content-type': form.headers.get('content-type') ?? MULTIPART }
  return { ...request, headers, body: await form.bytes() }
}

/**
 * @param args valid for the schema of the tool
 * @param own headers of the source, by name in lower case; no argument replaces them
 * @throws Problem `validation_failed` for an argument that cannot be sent in its place
 */
export function requestOf(
  call: OpenApiCall,
  args: Arguments,
  own: Readonly<Record<string, string>>,
): Request {
  const sentIn = (place: Parameter['in']) =>
    call.parameters
      .filter((one) => one.in === place && isPresent(args, one.argument))
      .map((one) => ({ parameter: one, value: sentValue(one, args[one.argument]) }))
  const url = new URL(call.server)
  url.pathname = `${url.pathname.replace(/\/$/, '')}${pathOf(call.path, sentIn('path'))}`
  url.search = queryOf(call.parameters, sentIn('query'))
  url.hash = ''
  const body = call.body && bodyOf(call.body, args)
  const headers = {
    accept: 'application/json, text/*;q=0.8, */*;q=0.5',
    'user-agent': USER_AGENT,
    ...Object.fromEntries(sentIn('header').map(({ parameter, value }) => headerPair(parameter, value))),
    ...(body !== undefined && { 'content-type': call.body?.media ?? '' }),
    ...own,
  }
  return { method: call.method, url, headers, ...(body !== undefined && { body }) }
}

interface SentValue {
  readonly parameter: Parameter
  readonly value: unknown
}

const isPresent = (args: Arguments, name: string) => Object.hasOwn(args, name) && args[name] !== undefined

const sentValue = ({ json }: Parameter, value: unknown) => (json ? JSON.stringify(value) : value)

/**
 * Fills the path template. Values are percent-encoded; a value that servers could read as a step to another path, even after
 * decoding it, is refused.
 */
function pathOf(template: string, values: readonly SentValue[]): string {
  const byName = new Map(values.map((one) => [one.parameter.name, one]))
  const filled = template.replaceAll(/\{([^{}]+)\}/g, (_whole, name: string) => {
    const one = byName.get(name)
    if (one === undefined) throw refused(name, 'is required.')
    const text = segmentOf(one.parameter, one.value)
    refuseSteps(one.parameter.argument, text)
    return text
  })
  if (!filled.split('/').some(isStep)) return filled
  throw refused(values[0]?.parameter.argument ?? '', 'must not be `.` or `..`.')
}

const isStep = (segment: string) => /^(?:\.|%2e){1,2}$/i.test(segment)

const DECODINGS = 3

/** @throws Problem `validation_failed` for an encoded text that is empty, or has control characters or steps in it */
function refuseSteps(argument: string, text: string): void {
  if (text === '') throw refused(argument, 'must not be empty: it is a part of a path.')
  let decoded = text
  // Servers behind each other may decode more than once.
  for (let n = 0; n < DECODINGS; n += 1) {
    decoded = percentDecoded(decoded)
    if (/\p{Cc}/u.test(decoded))
      throw refused(argument, 'must not have control characters: it is a part of a path.')
    if (decoded.split(/[/\\]/).some((part) => part === '.' || part === '..'))
      throw refused(argument, 'must not have `.` or `..` as a step: it is a part of a path.')
  }
}

/** Members of an object may become parameters of their own; none replaces a parameter that is declared. */
function queryOf(parameters: readonly Parameter[], values: readonly SentValue[]): string {
  const declared = new Map(parameters.filter((one) => one.in === 'query').map((one) => [one.name, one]))
  const pairs = values.flatMap(({ parameter, value }) => {
    if (value === null) return []
    const own = queryPairs(parameter, value)
    const names = own.map(([name]) => decodeURIComponent(name))
    const replaced = names.find((name) => (declared.get(name) ?? parameter) !== parameter)
    if (replaced !== undefined)
      throw refused(parameter.argument, `must not have a member that is sent as ${replaced}.`)
    return own
  })
  return joinPairs(pairs, '&')
}

function headerPair(parameter: Parameter, value: unknown): readonly [string, string] {
  const text = headerOf(parameter, value)
  if (/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) return [parameter.name.toLowerCase(), text]
  throw refused(
    parameter.argument,
    'must have no line breaks and no characters above U+00FF: it is sent as a header.',
  )
}

/** @returns undefined if no argument of the body is given */
function bodyOf({ media, members, argument, isBinary }: Body, args: Arguments): Request['body'] {
  if (argument !== undefined) {
    if (!isPresent(args, argument)) return undefined
    const value = args[argument]
    if (isBinary) return bytesOf(argument, value)
    return typeof value === 'string' && TEXT_MEDIA.test(media) ? value : serialized(media, value)
  }
  const present = (members ?? []).filter((one) => isPresent(args, one.argument))
  if (present.length === 0) return undefined
  if (media === MULTIPART) return formOf(present, args)
  return serialized(media, Object.fromEntries(present.map((one) => [one.name, args[one.argument]])))
}

function serialized(media: string, value: unknown): string {
  if (media !== FORM) return JSON.stringify(value)
  // An object becomes `name[member]`, so that no member replaces another argument.
  const style = { style: 'deepObject', explode: true, reserved: false }
  const pairs = Object.entries(Object(value)).filter(([, one]) => one !== null)
  return joinPairs(
    pairs.flatMap(([name, one]) => queryPairs({ ...style, name }, one)),
    '&',
  )
}

function formOf(members: readonly BodyMember[], args: Arguments): FormData {
  const form = new FormData()
  for (const { argument, name, isFile } of members) {
    const value = args[argument]
    for (const one of Array.isArray(value) ? value : [value])
      if (isFile) {
        const { base64, filename = name, media_type: type = 'application/octet-stream' } = Object(one)
        form.append(name, new Blob([bytesOf(argument, base64)], { type }), filename)
      } else if (one !== null) form.append(name, typeof one === 'object' ? JSON.stringify(one) : String(one))
  }
  return form
}

/** @throws Problem `validation_failed` for a text that is no base64 */
function bytesOf(argument: string, value: unknown): Uint8Array<ArrayBuffer> {
  const text = String(value)
  if (/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return new Uint8Array(Buffer.from(text, 'base64'))
  throw refused(argument, 'must be base64: letters, digits, + and /, without line breaks.')
}

const refused = (argument: string, detail: string) =>
  bodyProblem(`/${argument}`, detail, `${argument} ${detail}`)

/** The body of a request as arguments: JSON, a form, files in base64, or text. */

import {
  type Fields,
  fieldsOf,
  InvalidDocument,
  listOf,
  resolve,
} from '../../../../infra/openapi/document.ts'
import { type DocumentBody, FORM, MULTIPART } from '../../../../infra/openapi/operations.ts'
import type { JsonSchema } from '../../tool-name.ts'
import { described, type SchemaReader } from './schemas.ts'

/** The body of a request: its members are arguments, or it is one argument as a whole. */
export interface Body {
  readonly media: string
  readonly members?: readonly BodyMember[]
  readonly argument?: string
  /** The argument is base64 of the bytes that are sent. */
  readonly isBinary?: true
}

export interface BodyMember {
  readonly argument: string
  readonly name: string
  /** A file of a multipart form: an object with `base64`, or a list of them. */
  readonly isFile?: true
}

/** Adds an argument. @returns its name, which no other has */
export type Add = (name: string, suffix: string, schema: JsonSchema, required: boolean) => string

const JSON_MEDIA = /^application\/([\w.+-]+\+)?json\s*(;|$)/i
/** Sent as the argument says it. */
export const TEXT_MEDIA = /^(text\/(?!xml)|application\/(yaml|x-yaml|sql|graphql|javascript|x-ndjson)\b)/i
const UNSENT_MEDIA =
  /[/+](xml|x-protobuf|protobuf|grpc|msgpack|x-msgpack|cbor)\s*(;|$)|^multipart\/(?!form-data)/i

/** Kinds of media types that bodies are made of, the best for models first. */
const ACCEPTED: readonly ((type: string) => boolean)[] = [
  (type) => JSON_MEDIA.test(type),
  (type) => type.toLowerCase().startsWith(FORM),
  (type) => type.toLowerCase().startsWith(MULTIPART),
  (type) => type === '*/*' || type === 'application/*',
  (type) => TEXT_MEDIA.test(type),
  (type) => /^[\w.+-]+\/[\w.+*-]+/.test(type) && !UNSENT_MEDIA.test(type),
]

/**
 * Adds the arguments of a body. An optional body counts as a required one does: without it, a tool would send something else than its
 * description says.
 * @throws InvalidDocument for a body of types that cannot be made of arguments alone
 */
export function addBody(
  document: Fields,
  { types, required: isNeeded, description, schemaOf }: DocumentBody,
  reader: SchemaReader,
  add: Add,
): Body | undefined {
  if (types.length === 0 && !isNeeded) return undefined
  const accepted = ACCEPTED.flatMap((isOfKind) => types.filter(isOfKind))[0]
  if (accepted === undefined)
    throw new InvalidDocument(`It takes a body as ${types.join(', ').slice(0, 200) || 'nothing'} alone.`)
  const media = mediaOf(accepted)
  const raw = schemaOf(accepted)
  const whole = (schema: JsonSchema) => add('body', 'body', described(schema, description), isNeeded)
  if (TEXT_MEDIA.test(media)) return { media, argument: whole({ type: 'string' }) }
  if (!JSON_MEDIA.test(media) && media !== FORM && media !== MULTIPART)
    return { media, argument: whole(BASE64), isBinary: true }
  const schema = reader.read(raw)
  const { type, properties, required, anyOf } = schema
  const members = Object.entries(fieldsOf(properties))
  if (type !== 'object' || members.length === 0 || anyOf !== undefined) {
    if (media === MULTIPART)
      throw new InvalidDocument('It takes a form whose fields the document does not list.')
    return { media, argument: whole(schema) }
  }
  const isRequired = (name: string) => isNeeded && listOf(required).includes(name)
  const files = media === MULTIPART ? filesOf(document, raw) : new Map<string, JsonSchema>()
  return {
    media,
    members: members.map(([name, member]) => ({
      argument: add(name, 'body', files.get(name) ?? (member as JsonSchema), isRequired(name)),
      name,
      ...(files.has(name) && { isFile: true }),
    })),
  }
}

const BASE64: JsonSchema = { type: 'string', description: 'Base64 of the bytes.' }

const FILE: JsonSchema = {
  type: 'object',
  properties: {
    base64: { type: 'string', description: 'The content.' },
    filename: { type: 'string', maxLength: 255 },
    media_type: { type: 'string', maxLength: 100, description: 'Such as image/png.' },
  },
  required: ['base64'],
  additionalProperties: false,
}

/** The members of a form that are files, or lists of files, with the schemas of their arguments. */
function filesOf(document: Fields, schema: unknown): Map<string, JsonSchema> {
  const { value } = resolve(document, schema)
  const parts = [value, ...listOf(value['allOf']).map((part) => resolve(document, part).value)]
  const found = new Map<string, JsonSchema>()
  for (const [name, reference] of parts.flatMap(({ properties }) => Object.entries(fieldsOf(properties)))) {
    const { value: member } = resolve(document, reference)
    if (isFile(member)) found.set(name, described(FILE, member['description']))
    else if (isFile(resolve(document, member['items']).value))
      found.set(name, described({ type: 'array', items: FILE }, member['description']))
  }
  return found
}

/** `format: binary` of 3.0, `contentMediaType` of 3.1. */
const isFile = ({ format, contentMediaType, contentEncoding }: Fields) =>
  format === 'binary' || (contentMediaType !== undefined && contentEncoding === undefined)

/** The type to send for a range, or for a type with parameters. */
function mediaOf(accepted: string): string {
  const [type = ''] = accepted.toLowerCase().split(';')
  const media = type.trim()
  if (JSON_MEDIA.test(media) || media === '*/*' || media === 'application/*')
    return media.includes('*') ? 'application/json' : media
  return media.includes('*') ? 'application/octet-stream' : media
}

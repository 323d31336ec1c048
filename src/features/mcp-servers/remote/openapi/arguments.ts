/** The arguments of an operation: its parameters and the members of its body as one flat list, each name once. */

import { LIMITS } from '../../../../core/limits.ts'
import type { JsonSchema } from '../../tool-name.ts'
import { isHeaderName, isReservedHeader } from '../header-names.ts'
import { DocumentFault, type Fields, fieldsOf, listOf, resolve, textOf } from './document.ts'
import type { SchemaReader } from './schemas.ts'

/** A parameter of a request (OpenAPI "Parameter Object"). */
export interface Parameter {
  /** The name of the argument of the tool. */
  readonly argument: string
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly style: string
  readonly explode: boolean
  readonly reserved: boolean
  /** Its value is sent as JSON. */
  readonly json: boolean
}

/** The body of a request: its members are arguments, or it is one argument as a whole. */
export interface Body {
  readonly media: string
  readonly members?: readonly { readonly argument: string; readonly name: string }[]
  readonly argument?: string
}

/** The arguments of a tool, and the parts of a request that they become. */
export interface Arguments {
  readonly schema: JsonSchema
  readonly parameters: readonly Parameter[]
  readonly body?: Body
}

interface Argument {
  readonly name: string
  readonly schema: JsonSchema
  readonly required: boolean
}

const JSON_MEDIA = /^application\/([\w.+-]+\+)?json\s*(;|$)/i
export const FORM = 'application/x-www-form-urlencoded'

/**
 * @param item the path item of the operation, whose parameters it has, too
 * @param headers names of headers that the source sets
 * @throws DocumentFault if a request of the operation cannot be made
 */
export function argumentsOf(
  document: Fields,
  { path, item, operation }: { readonly path: string; readonly item: Fields; readonly operation: Fields },
  reader: SchemaReader,
  headers: readonly string[],
): Arguments {
  const names = new ArgumentNames()
  const known: Argument[] = []
  const add = (given: string, suffix: string, schema: JsonSchema, required: boolean): string => {
    const name = names.take(given, suffix)
    known.push({ name, schema, required })
    return name
  }
  const parameters = parametersOf(document, path, item, operation)
    .filter((one) => one['in'] !== 'header' || isFree(String(one['name']), headers))
    .map((given) => parameterOf(document, given, reader, add))
  const body = bodyOf(document, operation, reader, add)
  const schema = {
    type: 'object',
    properties: Object.fromEntries(known.map((one) => [one.name, one.schema])),
    required: known.filter(({ required }) => required).map(({ name }) => name),
    additionalProperties: false,
  }
  return { schema, parameters, ...(body !== undefined && { body }) }
}

const isFree = (name: string, headers: readonly string[]) =>
  isHeaderName(name) && !isReservedHeader(name, headers)

/** Gives each argument a name of its own, and always the same in the same order. */
class ArgumentNames {
  readonly #taken = new Set<string>()

  /** @param suffix tells apart parameters of one name: `id`, `id_query` */
  take(given: string, suffix: string): string {
    const clean = given.replaceAll(/[^A-Za-z0-9_.-]/g, '_').replace(/^__proto__$/, 'proto')
    const name = clean.slice(0, LIMITS.mcpToolNameCharsMax - 12) || suffix
    const candidates = [name, `${name}_${suffix}`]
    let free = candidates.find((one) => !this.#taken.has(one))
    for (let n = 2; free === undefined; n += 1) {
      const numbered = `${name}_${suffix}_${n}`
      if (!this.#taken.has(numbered)) free = numbered
    }
    this.#taken.add(free)
    return free
  }
}

const PARAMETERS_MAX = 100
const PLACES = ['path', 'query', 'header']

/**
 * Parameters in the order path, query, header; those of the operation replace those of the path item.
 * @throws DocumentFault if there are too many
 */
function parametersOf(document: Fields, path: string, item: Fields, operation: Fields): readonly Fields[] {
  const byKey = new Map<string, Fields>()
  for (const given of [...listOf(item['parameters']), ...listOf(operation['parameters'])]) {
    const { value } = resolve(document, given)
    const { in: place, name } = value
    if (PLACES.includes(String(place)) && typeof name === 'string') byKey.set(`${place} ${name}`, value)
  }
  const inTemplate = [...path.matchAll(/\{([^{}]+)\}/g)].map(([, name]) => textOf(name) ?? '')
  for (const name of inTemplate)
    if (!byKey.has(`path ${name}`))
      byKey.set(`path ${name}`, { in: 'path', name, schema: { type: 'string' } })
  const needed = [...byKey.values()].filter(
    (one) => one['in'] !== 'path' || inTemplate.includes(String(one['name'])),
  )
  if (needed.length <= PARAMETERS_MAX)
    return PLACES.flatMap((place) => needed.filter((one) => one['in'] === place))
  throw new DocumentFault(`It has more than ${PARAMETERS_MAX} parameters.`)
}

const STYLES = ['simple', 'label', 'matrix', 'form', 'spaceDelimited', 'pipeDelimited', 'deepObject']

type Add = (name: string, suffix: string, schema: JsonSchema, required: boolean) => string

function parameterOf(document: Fields, given: Fields, reader: SchemaReader, add: Add): Parameter {
  const place = String(given['in']) as Parameter['in']
  const [name, content] = [textOf(given['name']) ?? '', Object.values(fieldsOf(given['content']))]
  const schema = reader.read(
    content.length > 0 ? resolve(document, content[0]).value['schema'] : given['schema'],
  )
  const style = STYLES.find((one) => one === given['style']) ?? (place === 'query' ? 'form' : 'simple')
  return {
    argument: add(name, place, described(schema, given), place === 'path' || given['required'] === true),
    name,
    in: place,
    style,
    explode: typeof given['explode'] === 'boolean' ? given['explode'] : style === 'form',
    reserved: given['allowReserved'] === true,
    json: content.length > 0,
  }
}

/** A description beside a schema says more than the one within it. */
function described(schema: JsonSchema, { description }: Fields): JsonSchema {
  const text = textOf(description)?.trim().slice(0, 1_000).toWellFormed() ?? ''
  return text === '' ? schema : { ...schema, description: text }
}

/** @throws DocumentFault for a body that is neither JSON nor a form */
function bodyOf(document: Fields, operation: Fields, reader: SchemaReader, add: Add): Body | undefined {
  if (operation['requestBody'] === undefined) return undefined
  const { value: given } = resolve(document, operation['requestBody'])
  const content = fieldsOf(given['content'])
  const types = Object.keys(content)
  const accepted =
    types.find((type) => JSON_MEDIA.test(type)) ??
    types.find((type) => type.toLowerCase().startsWith(FORM)) ??
    types.find((type) => type === '*/*' || type === 'application/*')
  const isNeeded = given['required'] === true
  if (accepted === undefined) {
    if (!isNeeded) return undefined
    throw new DocumentFault(`It takes a body as ${types.join(', ').slice(0, 200) || 'nothing'} alone.`)
  }
  const media = /^[\w.+-]+\/[\w.+-]+$/.test(accepted) ? accepted.toLowerCase() : mediaOf(accepted)
  const schema = reader.read(resolve(document, content[accepted]).value['schema'])
  const { type, properties, required, anyOf } = schema
  const members = Object.entries(fieldsOf(properties))
  if (type !== 'object' || members.length === 0 || anyOf !== undefined)
    return { media, argument: add('body', 'body', described(schema, given), isNeeded) }
  const isRequired = (name: string) => isNeeded && listOf(required).includes(name)
  return {
    media,
    members: members.map(([name, member]) => ({
      argument: add(name, 'body', member as JsonSchema, isRequired(name)),
      name,
    })),
  }
}

/** The type to send for a range, or for a type with parameters. */
const mediaOf = (accepted: string) => (accepted.toLowerCase().startsWith(FORM) ? FORM : 'application/json')

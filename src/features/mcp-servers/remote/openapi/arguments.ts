/** The arguments of an operation: its parameters and the members of its body as one flat list, each name once. */

import { MCP_LIMITS } from '../../limits.ts'
import type { JsonSchema } from '../../tool-name.ts'
import { isHeaderName, isReservedHeader } from '../header-names.ts'
import { type Add, type Body, bodyOf } from './body.ts'
import { DocumentFault, described, type Fields, fieldsOf, listOf, resolve, textOf } from './document.ts'
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

/** The arguments of a tool, and the parts of a request that they become. */
export interface Arguments {
  readonly schema: JsonSchema
  readonly parameters: readonly Parameter[]
  readonly body?: Body
}

interface Operation {
  readonly path: string
  readonly item: Fields
  readonly operation: Fields
}

interface Argument {
  readonly name: string
  readonly schema: JsonSchema
  readonly required: boolean
}

/**
 * @param at the operation, and its path item, whose parameters it has, too
 * @param headers names of headers that the source sets
 * @throws DocumentFault if a request of the operation cannot be made
 */
export function argumentsOf(
  document: Fields,
  at: Operation,
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
  const parameters = parametersOf(document, at, headers)
    .filter((one) => one['in'] !== 'header' || isFree(String(one['name']), headers))
    .map((given) => parameterOf(document, given, reader, add))
  const body = bodyOf(document, at.operation, reader, add)
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
    const name = clean.slice(0, MCP_LIMITS.toolNameCharsMax - 12) || suffix
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
 * Parameters in the order path, query, header; those of the operation replace those of the path item. No cookie is sent.
 * @param headers names of headers that the source sets
 * @throws DocumentFault if there are too many, or a cookie is required that the source does not set
 */
function parametersOf(
  document: Fields,
  { path, item, operation }: Operation,
  headers: readonly string[],
): readonly Fields[] {
  const byKey = new Map<string, Fields>()
  for (const given of [...listOf(item['parameters']), ...listOf(operation['parameters'])]) {
    const { value } = resolve(document, given)
    const { in: place, name, required } = value
    if (place === 'cookie' && required === true && !headers.includes('cookie'))
      throw new DocumentFault(
        `It needs the cookie ${String(name).slice(0, 100)}: set it in \`headers\` of the source.`,
      )
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

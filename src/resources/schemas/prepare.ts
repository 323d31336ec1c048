/** A schema as it is evaluated: references replaced by what they mean, annotations gone, its cost known. */

import { unescaped } from '../../../flows-dsl/json.ts'
import type { Shape } from '../../../flows-dsl/schema/vocabulary.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { type Schema, type SchemaObject, saidShapeOf } from './language.ts'

interface Built {
  readonly schema: Schema
  /** Subschemas that one value may meet, each as often as a reference leads to it, and the items of their lists. */
  readonly size: number
}

export interface Prepared extends Built {
  /** It says things about single members only, so that whoever changes some need not ask for the others. */
  readonly separable: boolean
}

/** Keywords that judge each member by its own name and value; `required` by whether it is there at all. */
const OF_MEMBERS = [
  'type',
  'properties',
  'patternProperties',
  'additionalProperties',
  'propertyNames',
  'required',
]

/**
 * References form no circle, so what comes out is a finite graph that shares what is referred to twice. Whoever
 * evaluates it needs no resolver, and meets at most `size` subschemas for each value of a document.
 * @param root a schema that `checkSchema` let through
 * @throws Problem `schema_invalid` where a reference leads nowhere, in a circle, or to too much
 */
export function prepare(root: SchemaObject): Prepared {
  const builder = new Builder((root['$defs'] ?? {}) as SchemaObject)
  const built = builder.build(root as Schema)
  const separable = Object.keys(built.schema).every((name) => OF_MEMBERS.includes(name))
  if (built.size <= LIMITS.schemaExpandedMax) return { ...built, separable }
  throw invalid(`The references of the schema expand to more than ${LIMITS.schemaExpandedMax} subschemas.`)
}

class Builder {
  readonly #defs: SchemaObject
  readonly #done = new Map<string, Built>()
  readonly #open = new Set<string>()

  constructor(defs: SchemaObject) {
    this.#defs = defs
  }

  build(schema: Schema): Built {
    const made: Made = { said: [], size: 1 }
    if (typeof schema === 'boolean') return { ...made, schema }
    for (const [name, value] of Object.entries(schema)) this.#keyword(made, name, value)
    const reference = schema['$ref']
    if (typeof reference === 'string') this.#refer(made, reference)
    return { ...made, schema: Object.fromEntries(made.said) }
  }

  #keyword(made: Made, name: string, value: unknown): void {
    const shape = saidShapeOf(name)
    if (shape !== undefined) made.said.push([name, this.#below(made, shape, value)])
  }

  #below(made: Made, shape: Shape, value: unknown): unknown {
    if (shape === 'schema') return this.#part(made, value)
    if (shape === 'schemas') return (value as unknown[]).map((item) => this.#part(made, item))
    if (shape === 'schemaMap' || shape === 'patternMap') {
      const parts = Object.entries(value as object).map(
        ([name, item]) => [name, this.#part(made, item)] as const,
      )
      return Object.fromEntries(parts)
    }
    made.size += listed(value)
    return value
  }

  #part(made: Made, schema: unknown): Schema {
    return add(made, this.build(schema as Schema))
  }

  /** `$ref` beside other keywords is one more condition (JSON Schema Core 2020-12 §8.2.3.1). */
  #refer(made: Made, reference: string): void {
    const target = add(made, this.#target(reference))
    const conditions = made.said.find(([name]) => name === 'allOf')
    if (conditions === undefined) made.said.push(['allOf', [target]])
    else conditions[1] = [...(conditions[1] as Schema[]), target]
  }

  #target(reference: string): Built {
    const name = unescaped(reference.slice('#/$defs/'.length))
    const known = this.#done.get(name)
    if (known !== undefined) return known
    if (!Object.hasOwn(this.#defs, name)) throw invalid(`${reference} leads nowhere.`)
    if (this.#open.has(name)) throw invalid(`${reference} leads in a circle, which is not taken.`)
    this.#open.add(name)
    const built = this.build(this.#defs[name] as Schema)
    this.#open.delete(name)
    this.#done.set(name, built)
    return built
  }
}

/** Items of `enum`, `required` and the like: each is a comparison. */
function listed(value: unknown): number {
  if (Array.isArray(value)) return value.length
  return Object.values(Object(value)).reduce<number>(
    (sum, item) => sum + (Array.isArray(item) ? item.length : 0),
    0,
  )
}

interface Made {
  readonly said: [string, unknown][]
  size: number
}

function add(made: Made, part: Built): Schema {
  made.size += part.size
  return part.schema
}

function invalid(detail: string): Problem {
  return new Problem('schema_invalid', {
    detail,
    errors: [{ in: 'body', name: 'schema', pointer: '/schema', detail }],
  })
}

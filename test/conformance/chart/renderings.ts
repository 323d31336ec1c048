/** The renderings of the chart that every check walks: both sets of values, and each with one boolean changed. */

import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { CHART, type KubeObject, render, VALUE_SETS, type ValueSet } from './helm.ts'

export interface Rendering {
  readonly title: string
  readonly objects: readonly KubeObject[]
}

interface Schema {
  readonly type?: unknown
  readonly $ref?: string
  readonly default?: unknown
  readonly properties?: Readonly<Record<string, Schema>>
}

/** What a value needs beside it, as its description says. */
const COMPANIONS: Readonly<Record<string, object>> = {
  'ingress.enabled': {
    ingress: { className: 'nginx', tlsSecret: 'tenon-tls' },
    networkPolicy: { apiFrom: [{ podSelector: { matchLabels: { app: 'gateway' } } }] },
  },
  'metrics.podMonitor.enabled': {
    networkPolicy: { metricsFrom: [{ podSelector: { matchLabels: { app: 'prometheus' } } }] },
  },
}

/** The paths of all values that are true or false, with the defaults of settings. */
export async function booleanPaths(): Promise<ReadonlyMap<string, unknown>> {
  const schema = JSON.parse(await readFile(`${CHART}/values.schema.json`, 'utf8'))
  const definitions = schema.definitions as Readonly<Record<string, Schema>>
  const below = (at: Schema, path: readonly string[]): [string, unknown][] => {
    const named = definitions[at.$ref?.split('/').at(-1) ?? ''] ?? at
    if (named.type === 'boolean') return [[path.join('.'), named.default]]
    return Object.entries(named.properties ?? {}).flatMap(([name, one]) => below(one, [...path, name]))
  }
  return new Map(below(schema, []))
}

/** Renders everything once. */
export async function renderAll(): Promise<Rendering[]> {
  const paths = await booleanPaths()
  const renderings: Rendering[] = []
  for (const set of VALUE_SETS) {
    renderings.push({ title: set, objects: await render(set) })
    const values = await valuesOf(set)
    for (const [path, usual] of paths) {
      const flipped = !(valueAt(values, path) ?? usual)
      const changed = merge(flipped ? (COMPANIONS[path] ?? {}) : {}, objectAt(path, flipped))
      renderings.push({ title: `${set}, ${path}: ${flipped}`, objects: await render(set, changed) })
    }
    const all = [...paths.keys()].map((path) => merge(COMPANIONS[path] ?? {}, objectAt(path, true)))
    const certificates = { certificates: { existingSecret: 'tenon-certificates' } }
    renderings.push({
      title: `${set}, all true`,
      objects: await render(set, all.reduce(merge, certificates)),
    })
  }
  return renderings
}

/** The values of a set, with the defaults. */
export async function valuesOf(set: ValueSet): Promise<object> {
  const read = async (name: string) => parse(await readFile(`${CHART}/${name}`, 'utf8')) as object
  return merge(await read('values.yaml'), await read(`values-${set}.yaml`))
}

const valueAt = (values: object, path: string): unknown =>
  path.split('.').reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], values)

/** `a.b` and 1 → `{ a: { b: 1 } }` */
const objectAt = (path: string, value: unknown): object =>
  path.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as object

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Merges as Helm does: objects member by member, and lists as a whole. */
export function merge(under: object, over: object): object {
  const merged: Record<string, unknown> = { ...under }
  for (const [name, value] of Object.entries(over)) {
    const before = merged[name]
    merged[name] = isObject(before) && isObject(value) ? merge(before, value) : value
  }
  return merged
}

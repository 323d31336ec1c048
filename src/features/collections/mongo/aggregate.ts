/** Aggregates documents in MongoDB: reads those that match, up to a bound, and adds them up in this process, where sums are exact. */

import { Problem } from '../../../core/problem.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import type { MongoDocument } from '../../../infra/mongo/mongo.ts'
import { AggregateEvaluation } from '../aggregates/evaluate-aggregate.ts'
import { valueBelow } from '../query/evaluate.ts'
import type { Path } from '../query/filter.ts'
import type { AggregateQuery, GroupRow } from '../store.ts'
import { compileFilter, systemFieldAt } from './compile.ts'
import type { Bounded } from './referring.ts'
import { fromStored, storedName } from './storage-format.ts'

/** @throws Problem `query_too_costly` if too many documents match */
export async function aggregateDocuments(
  { documents, name, max }: Bounded,
  query: AggregateQuery,
): Promise<GroupRow[]> {
  const { filter, groups, measures } = query.aggregate
  const paths = [...groups, ...measures].flatMap(({ path }) => (path === undefined ? [] : [path]))
  const evaluation = new AggregateEvaluation(query)
  const budget = new CpuBudget(Number.POSITIVE_INFINITY)
  const found = documents.each(name, compileFilter(filter), {
    names: ['id', ...paths.map(partOf)],
    limit: max + 1,
  })
  const read = { documents: 0, bytes: 0 }
  for await (const { document, bytes } of found) {
    read.documents += 1
    read.bytes += bytes
    if (read.documents > max || read.bytes > INFRA_LIMITS.rowsBytesMax) throw tooCostly(max)
    budget.run(() => evaluation.add(valuesOf(document)))
    await budget.yield()
  }
  return evaluation.rows()
}

/** The part of a document that a path is in. */
const partOf = (path: Path): string => systemFieldAt(path)?.name ?? `d.${storedName(path[0])}`

function valuesOf({ d = {}, ...document }: Partial<MongoDocument>): (path: Path) => unknown {
  const fields = fromStored(d)
  return (path) => {
    const system = systemFieldAt(path)
    if (system === undefined) return valueBelow(fields, path)
    const value = (document as Readonly<Record<string, unknown>>)[system.name]
    return value instanceof Date ? value.toISOString() : value
  }
}

const tooCostly = (max: number) =>
  new Problem('query_too_costly', {
    detail: `The aggregate would read more than ${max} documents in MongoDB, or ${INFRA_LIMITS.rowsBytesMax / 1_048_576} MiB of their fields.`,
    hint: 'Restrict the filter.',
    adminHint: 'Or declare the collection with "store": "relational".',
  })

/** Operations that count and add up documents by groups: in the URL, and in JSON. */

import Type, { type Static } from 'typebox'
import { Input, workspaceOperation } from '../../../access/operation-builders.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID } from '../../../core/components/examples.ts'
import { PageOf } from '../../../core/page.ts'
import { DATA_ROLES } from '../../../core/policy.ts'
import { Cursor, Filters } from '../documents-api.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { takeBodySearch, takeSearch } from '../query/search.ts'
import { CollectionName } from '../schemas/columns.ts'
import { AggregateBody, readBodyAggregate } from './body.ts'
import { readGroups } from './read-groups.ts'
import { readUrlAggregate } from './url.ts'

const GroupOutput = component(
  'AggregateGroup',
  Type.Record(Type.String(), Type.Unknown(), {
    description: 'Groups and measures by their names.',
  }),
  { court_id: EXAMPLE_ID.court, n: 12 },
)
const Output = Type.Unsafe<
  Static<ReturnType<typeof PageOf<typeof GroupOutput>>> | Static<typeof GroupOutput>
>(
  Type.Union([PageOf(GroupOutput), GroupOutput], {
    description: 'A page of groups; without groups, one object of measures.',
  }),
)

const Size = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: COLLECTION_LIMITS.groupsMax,
    description: `Maximum number of groups. Default: ${COLLECTION_LIMITS.groupsDefault}.`,
  }),
)

export const listGroups = workspaceOperation({
  name: 'collection.list_groups',
  summary: 'Count and add up documents by groups, with parameters in the URL',
  roles: DATA_ROLES,
  input: Input({
    name: CollectionName,
    select: Type.String({
      description:
        'Groups and measures, such as `status,day:_created_at.bucket(day,Europe/Berlin),n:count(),total:amount.sum()`.',
    }),
    having: Type.Optional(
      Type.String({ description: 'Conditions on measures, such as `total.gt.100,n.gte.2`.' }),
    ),
    order: Type.Optional(
      Type.String({ description: 'Sort keys over names of the answer, such as `total.desc,status`.' }),
    ),
    filters: Filters,
    page_size: Size,
    page_after: Type.Optional(Cursor),
  }),
  output: Output,
  http: { method: 'GET', path: '/v1/collections/{name}/aggregate', rest: 'filters' },
  run: (scope, { name, select, filters = [], having, order, page_size, page_after }) => {
    const { search, filters: others } = takeSearch(filters)
    return readGroups(scope, name, {
      aggregate: readUrlAggregate({ select, filters: others, having, order }),
      search,
      size: page_size,
      after: page_after,
    })
  },
})

export const aggregateDocuments = workspaceOperation({
  name: 'collection.aggregate',
  summary: 'Count and add up documents by groups',
  roles: DATA_ROLES,
  reads: true,
  input: Input({ name: CollectionName, ...AggregateBody, limit: Size, after: Type.Optional(Cursor) }),
  output: Output,
  http: { method: 'POST', path: '/v1/collections/{name}/aggregate', body: '*' },
  run: (scope, { name, limit, after, filter = {}, ...body }) => {
    const { search, filter: others } = takeBodySearch(filter)
    const aggregate = readBodyAggregate({ ...body, filter: others })
    return readGroups(scope, name, { aggregate, search, size: limit, after })
  },
})

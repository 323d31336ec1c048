/** Subscribes to the documents that a list would return (docs/events.md, "Live queries"). */

import Type from 'typebox'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import { DATA_ROLES } from '../../core/policy.ts'
import { CollectionName } from '../collections/document.ts'
import { Filters, Select } from '../collections/documents-api.ts'
import { LIVE_EVENTS, LiveResult, refuseListParameters, topicsOf } from '../collections/live-query.ts'
import { readSelection } from '../collections/query/order-and-selection.ts'
import { readFilters } from '../collections/query/url.ts'
import { eventsIn } from './events.ts'
import { requireEvents } from './topic-rules.ts'

export const subscribeToQuery = workspaceOperation({
  name: 'collection.subscribe',
  summary: 'Subscribe to the documents that a list with these filters returns, as server-sent events',
  roles: DATA_ROLES,
  reads: true,
  conditionalScopes: [{ scope: 'events:read', when: () => true }],
  input: Input({
    name: CollectionName,
    select: Select,
    filters: Filters,
    last_event_id: Type.Optional(
      Type.String({
        description: 'Position to continue after: `page.position` of a list, or the last `id`.',
      }),
    ),
  }),
  output: Type.Unknown({ description: 'Server-sent events.' }),
  http: {
    method: 'GET',
    path: '/v1/collections/{name}/subscribe',
    rest: 'filters',
    headers: { last_event_id: 'last-event-id' },
    reply: 'feed',
    events: LIVE_EVENTS,
    keyInQuery: true,
  },
  run: async (scope, { name, select, filters = [], last_event_id: after }) => {
    refuseListParameters(filters)
    const result = new LiveResult(scope, name, {
      filter: readFilters(filters),
      selection: readSelection(select, 'query'),
    })
    const checkAccess = async () => {
      await requireEvents(scope)
      await result.check()
    }
    await checkAccess()
    const feed = await eventsIn(scope).subscribe({
      topics: topicsOf(name),
      ownWorkspace: true,
      ...(after !== undefined && { after }),
      filter: (entry) => result.verdict(entry),
      onGap: () => result.forget(),
    })
    return { ...feed, recheck: checkAccess }
  },
})

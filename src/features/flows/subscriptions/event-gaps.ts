/** Records on executions that events were dropped from a stream before they heard them. */

import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import type { StreamGap } from '../../../infra/valkey/streams.ts'
import type { StreamName } from '../../events/events.ts'
import { ANY_TOPIC } from './subscription.ts'

/** For the executions that wait at this time for events of a stream, of a topic of which some were dropped. */
export const recordGapOfSubscribers = (stream: StreamName, gap: StreamGap): Sql => sql`
  ${widenGap(gap)} and id in (select s.execution_id from event_subscriptions s where s.active
    and (s.topic = ${ANY_TOPIC} or (s.topic ~ '^(collections|platform)([.]|$)') = ${stream === 'changes'} ${amongDropped(gap)}))`

const amongDropped = ({ dropped }: StreamGap): Sql =>
  dropped === 'any' ? sql`` : sql`and s.topic = any(${textArray([...dropped])}::text[])`

export const recordGapOf = (id: string, gap: StreamGap): Sql => sql`${widenGap(gap)} and id = ${id}`

/** Several gaps become one interval. */
const widenGap = ({ from, to }: StreamGap): Sql => sql`
  update executions set event_gap = jsonb_build_object(
    'from', least(event_gap ->> 'from', ${from}::text), 'to', greatest(event_gap ->> 'to', ${to}::text))
  where ended_at is null`

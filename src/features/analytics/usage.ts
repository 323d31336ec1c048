/** Records what a workspace used in each hour, once, soon after the hour has ended. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import { Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { retryTransient } from '../../infra/retry.ts'
import { type Levels, readLevels } from './levels.ts'
import { ANALYTICS_LIMITS } from './limits.ts'
import { eventsBetween, metricsOf } from './metrics.ts'

interface HoursRow {
  /** True if hours have ended that are not recorded. */
  readonly isDue: boolean
  /** True if anything went on in them, or nothing was recorded before. */
  readonly isActive: boolean
}

/**
 * Records the hours that have ended and are not recorded. What went on in them may be removed afterwards.
 * @param scope an admin's
 */
export async function recordUsage(scope: WorkspaceScope): Promise<void> {
  const hours = await scope.row<HoursRow>(sql`
    select since < until as "isDue", since < until and (${anyEvents()} or not exists (select from usage_records)) as "isActive"
    from (${RECORDED}) hours`)
  if (hours?.isDue !== true) return
  // Counting documents takes longest, and they do not change by themselves.
  const levels = hours.isActive ? await countLevels(scope) : undefined
  await scope.batch(
    recordHours(levels),
    sql`update workspaces set usage_until = until from (${RECORDED}) hours where id = tenon.workspace()`,
  )
}

const LEVELS = metricsOf('level').map(([name]) => name)

/** Waits while other queries read whole collections. A level that cannot be counted is recorded as null. */
async function countLevels(scope: WorkspaceScope): Promise<Levels> {
  try {
    const isBusy = (error: unknown) => error instanceof Problem && error.code === 'overloaded'
    return await retryTransient(ANALYTICS_LIMITS.levelsWaitMs, () => readLevels(scope, LEVELS), isBusy)
  } catch (error) {
    scope.logError(error, 'levels of usage not counted')
    return Object.fromEntries(LEVELS.map((name) => [name, null]))
  }
}

/** A query of the columns `since, until`: from which time on hours are not recorded, and the end of the last hour that has ended. */
const RECORDED = sql`
  select usage_until as since,
    -- Of a long outage a part at a time, so that one statement can count it.
    least(date_trunc('hour', now() - make_interval(secs => ${ANALYTICS_LIMITS.usageDelaySeconds}::integer), 'UTC'),
      usage_until + interval '24 hours') as until
  from workspaces where id = tenon.workspace()`

const anyEvents = (): Sql =>
  Sql.joined(
    metricsOf('count').map(([, metric]) => sql`exists (${eventsBetween(metric, sql`since`, sql`until`)})`),
    ' or ',
  )

/** The levels stand at the end of the last hour; without new ones, those of the record before do. Null ones alone make no record. */
function recordHours(levels: Levels | undefined): Sql {
  const counts = metricsOf('count').map(
    ([name, metric]) => sql`
      select ${name}::text as metric, e.at, e.label, e.value
      from hours cross join lateral (${eventsBetween(metric, sql`hours.since`, sql`hours.until`)}) e`,
  )
  return sql`
    with hours as (${RECORDED}),
    counts as (
      select date_trunc('hour', at, 'UTC') as hour, metric, label, sum(value)::bigint as value
      from (${unionAll(counts)}) events group by 1, 2, 3 having sum(value) > 0
    ), labelled as (
      select hour, metric, jsonb_object_agg(label, value) as values from counts group by 1, 2
    ), levels as (
      select until - interval '1 hour' as hour, l.key as metric, jsonb_build_object('', l.value) as values
      from hours cross join jsonb_each(coalesce(${levels === undefined ? null : JSON.stringify(levels)}::jsonb,
        (select jsonb_object_agg(b.key, b.value -> '') from (
          select amounts from usage_records order by hour desc limit 1) r, jsonb_each(r.amounts) b
          where b.key = any(${textArray(LEVELS)}::text[])), '{}')) l
      where l.value <> '0'
    )
    insert into usage_records (hour, id, amounts)
    select hour, concat_ws('_', 'usage', to_char(hour at time zone 'UTC', 'YYYYMMDD"T"HH24"Z"'), tenon.workspace()),
      jsonb_object_agg(metric, values) from (table labelled union all table levels) amounts
    group by hour having bool_or(values <> '{"": null}')
    on conflict do nothing`
}

const unionAll = ([first = sql``, ...others]: readonly Sql[]): Sql =>
  others.reduce((all, one) => sql`${all} union all ${one}`, first)

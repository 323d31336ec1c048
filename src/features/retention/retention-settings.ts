/** The settings of retention: how long a workspace, and its tenant, keep what grows. */

import Type, { type Static } from 'typebox'
import { component } from '../../core/components/component.ts'
import { boundedMs, Duration, durationMs } from '../../core/units.ts'
import { FUNCTION_LIMITS } from '../functions/limits.ts'
import { RETENTION_LIMITS } from './limits.ts'

const { kept, keptMin, keptMax } = RETENTION_LIMITS

interface Period {
  readonly description: string
  /** Undefined: for ever. */
  readonly default?: string
  readonly min: string
}

/** Periods of a workspace. */
const WORKSPACE_PERIODS = {
  executions: { description: 'Time for which ended executions are kept', min: keptMin.runs },
  function_runs: {
    description: `Time for which ended runs of functions are kept with their logs (dead letters at least ${FUNCTION_LIMITS.retention.deadLettersKept})`,
    default: FUNCTION_LIMITS.retention.runsKept,
    min: keptMin.runs,
  },
  mcp_calls: {
    description: 'Time for which calls of MCP servers are kept in their log',
    default: kept.mcpCalls,
    min: keptMin.logs,
  },
  meters: {
    description: 'Time for which counts of requests by the minute are kept',
    default: kept.meters,
    min: keptMin.others,
  },
  usage: {
    description: 'Time for which records of the usage of each hour are kept',
    default: kept.usage,
    min: keptMin.logs,
  },
  webhook_deliveries: {
    description: 'Time for which a repeated webhook delivery is recognized',
    default: kept.webhookDeliveries,
    min: keptMin.others,
  },
} as const satisfies Readonly<Record<string, Period>>

/** Periods of a tenant, whose rows belong to no workspace. */
const TENANT_PERIODS = {
  audit: {
    description: 'Time for which entries of the audit log are kept',
    default: kept.audit,
    min: keptMin.logs,
  },
  operations: {
    description: 'Time for which ended operations are kept',
    default: kept.operations,
    min: keptMin.others,
  },
} as const satisfies Readonly<Record<string, Period>>

const defaultsOf = (periods: Readonly<Record<string, Period>>): Readonly<Record<string, string | null>> =>
  Object.fromEntries(Object.entries(periods).map(([name, period]) => [name, period.default ?? null]))

/** Periods by name. Null: no limit. */
export const PERIOD_DEFAULTS = {
  workspace: defaultsOf(WORKSPACE_PERIODS),
  tenant: defaultsOf(TENANT_PERIODS),
}

type Periods<P> = { [Name in keyof P]: Type.TOptional<Type.TString> }

function schemaOf<P extends Readonly<Record<string, Period>>>(periods: P): Periods<P> {
  const members = Object.entries<Period>(periods).map(([name, period]) => {
    const byDefault = period.default === undefined ? 'no limit' : `\`${period.default}\``
    const text = `${period.description}, from ${period.min} to ${keptMax}. Default: ${byDefault}.`
    return [name, Type.Optional(Duration(text))]
  })
  return Object.fromEntries(members) as Periods<P>
}

export const WorkspaceRetention = component(
  'WorkspaceRetention',
  Type.Object(
    {
      ...schemaOf(WORKSPACE_PERIODS),
      archive: Type.Optional(
        Type.Object(
          { bucket: Type.String({ maxLength: 63, description: 'Name of the bucket of the workspace.' }) },
          {
            additionalProperties: false,
            description:
              'Archive to which each execution is written as `executions/<flow>/<id>.json` before it is removed.',
          },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  { executions: '90d' },
)
export type WorkspaceRetention = Static<typeof WorkspaceRetention>

export const TenantRetention = component(
  'TenantRetention',
  Type.Object(schemaOf(TENANT_PERIODS), { additionalProperties: false }),
  { audit: '400d' },
)
export type TenantRetention = Static<typeof TenantRetention>

/** The settings of a workspace and its tenant. Absent periods have their default. */
export interface Retention {
  readonly workspace: WorkspaceRetention
  readonly tenant: TenantRetention
}

/** Periods by name, each set or the default; those without a limit are absent. */
export function periodsOf({ workspace, tenant }: Retention): ReadonlyMap<string, string> {
  const periods: Record<string, Period> = { ...WORKSPACE_PERIODS, ...TENANT_PERIODS }
  const set: Readonly<Record<string, unknown>> = { ...workspace, ...tenant }
  return new Map(
    Object.entries(periods).flatMap(([name, period]): [string, string][] => {
      const text = typeof set[name] === 'string' ? set[name] : period.default
      return text === undefined ? [] : [[name, text]]
    }),
  )
}

/** @throws Problem `validation_failed` if a period is out of bounds @param at where the settings are in the body: `retention` */
export function checkPeriods(at: string, set: WorkspaceRetention | TenantRetention): void {
  const periods: Record<string, Period> = { ...WORKSPACE_PERIODS, ...TENANT_PERIODS }
  for (const [name, text] of Object.entries(set)) {
    const period = periods[name]
    if (period === undefined || typeof text !== 'string') continue
    const field = {
      in: 'body',
      name: `${at}.${name}`,
      pointer: `/${at.replaceAll('.', '/')}/${name}`,
    } as const
    boundedMs(field, text, { minMs: durationMs(period.min), maxMs: durationMs(keptMax) })
  }
}

/** Seconds until retention looks again: soon if a period is short. */
export function pauseSecondsOf(periods: Iterable<string>): number {
  const { min, max } = RETENTION_LIMITS.pauseSeconds
  const shortestMs = Math.min(...[...periods].map(durationMs))
  return Math.round(Math.min(max, Math.max(min, shortestMs / 12_000)))
}

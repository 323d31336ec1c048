/** Aliases of versions, of flows and of functions: they select one version, or several by weight. */

import { createHash } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { component } from '../core/components/component.ts'
import { Problem } from '../core/problem.ts'
import { SHARED_LIMITS } from './limits.ts'

export const VersionNumber = Type.Integer({ minimum: 1, maximum: 2147483647 })

export const AliasName = Type.String({
  pattern: '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$',
  description: 'Name of the alias, unique in the flow or function, such as `production`.',
})

export const Weighted = component(
  'WeightedVersion',
  Type.Object(
    {
      version: VersionNumber,
      weight: Type.Integer({
        minimum: 1,
        maximum: SHARED_LIMITS.aliasWeightMax,
        description: 'Weight of the version; its share is the weight divided by the sum of all weights.',
      }),
    },
    { additionalProperties: false },
  ),
  { version: 3, weight: 9 },
)
export type Weighted = Static<typeof Weighted>

const WeightedVersions = Type.Array(Weighted, { minItems: 1, maxItems: SHARED_LIMITS.aliasVersionsMax })

/** The input of an operation that sets an alias: either member. */
export const AliasTarget = {
  version: Type.Optional(VersionNumber),
  versions: Type.Optional(WeightedVersions),
}

/** An alias in an archive. */
export const AliasLine = Type.Object(
  { name: AliasName, versions: WeightedVersions },
  { additionalProperties: false },
)

/** @throws Problem `validation_failed` if both or neither are given, or a version is repeated */
export function weightedOf(
  version: number | undefined,
  versions: readonly Weighted[] | undefined,
): readonly Weighted[] {
  if ((version === undefined) === (versions === undefined))
    throw new Problem('validation_failed', { detail: 'Give either `version` or `versions`.' })
  const weighted = versions ?? [{ version: version as number, weight: 1 }]
  if (new Set(weighted.map((each) => each.version)).size < weighted.length)
    throw new Problem('validation_failed', { detail: 'versions: each version may occur once.' })
  return weighted
}

/** All versions that aliases select. */
export const versionsOf = (aliases: readonly Static<typeof AliasLine>[]): number[] =>
  aliases.flatMap(({ versions }) => versions.map(({ version }) => version))

/** The argument of `tenon.alias_version`: a hash of the id of a run, so that each attempt of a request selects the same version. */
export const shareOf = (runId: string): number => createHash('sha256').update(runId).digest().readUIntBE(0, 6)

/** Plans what applying a project changes in a workspace, and carries it out kind by kind. */

import { clients } from './kinds/clients.ts'
import { collections } from './kinds/collections.ts'
import { flows, requireCases } from './kinds/flows.ts'
import { functions } from './kinds/functions.ts'
import type { Change, Extra, Kind, Pulled, Step, Written } from './kinds/kind.ts'
import { mcp } from './kinds/mcp.ts'
import { secrets } from './kinds/secrets.ts'
import { settings } from './kinds/settings.ts'
import type { Place } from './place.ts'
import { MadeResources } from './record.ts'

/** In the order in which they are written: each may need those before it. Settings switch on tools of flows. */
const KINDS: readonly Kind[] = [collections, secrets, functions, flows, settings, mcp, clients]

export interface Plan {
  readonly steps: readonly Step[]
  /** Resources of the workspace that the project does not have. */
  readonly extras: readonly (Extra & { readonly isMade: boolean })[]
  /** Those of them that applying deletes. */
  readonly pruned: readonly Extra[]
  readonly same: number
  /** Everything that changes, in its order. */
  readonly changes: readonly Change[]
}

/** @param prune deletes what the project has made before, and has no more */
export async function planProject(place: Place, { prune = false } = {}): Promise<Plan> {
  const record = await MadeResources.open(place.folder, place.workspace.id)
  const steps: Step[] = []
  const found: Extra[] = []
  let same = 0
  for (const kind of KINDS) {
    const planned = await kind.plan(place, new Set(steps.flatMap(({ changes }) => changes.map(keyOf))))
    steps.push(...planned.steps)
    found.push(...planned.extras)
    same += planned.same
  }
  const extras = found.map((extra) => ({ ...extra, isMade: record.hasMade(extra) }))
  const pruned = prune
    ? extras.filter(({ isMade, remove }) => isMade && remove !== undefined).toReversed()
    : []
  const changes = [...steps.flatMap((step) => step.changes), ...pruned.map(deletionOf)]
  return { steps, extras, pruned, same, changes }
}

const keyOf = ({ kind, name }: { readonly kind: string; readonly name: string }): string => `${kind}/${name}`

const deletionOf = ({ kind, name }: Extra): Change => ({
  ...{ kind, name, action: 'delete' },
  differences: [{ detail: 'it is no longer in the project, which has made it', isLossy: true }],
})

/** The changes that lose something for ever. */
export const lossyOf = ({ changes }: Plan): readonly Change[] =>
  changes.filter(({ differences }) => differences.some(({ isLossy }) => isLossy))

/**
 * Checks before anything is written what can be checked here.
 * @throws Error that names what has to be done first
 */
export async function requireApplicable(place: Place, { changes }: Plan): Promise<void> {
  const blocked = changes.flatMap(({ kind, name, differences }) =>
    differences.flatMap(({ isBlocked, detail }) => (isBlocked ? [`${kind}/${name}: ${detail}`] : [])),
  )
  if (blocked.length > 0) throw new Error(['Nothing was changed:', ...blocked].join('\n  '))
  const names = changes.filter(({ kind }) => kind === 'flows').map(({ name }) => name)
  await requireCases(place, names)
}

/** @param report is called after each step, so that what was written is known if a later one fails */
export async function carryOut(
  place: Place,
  { steps, pruned }: Plan,
  report: (written: Written) => void,
): Promise<void> {
  const record = await MadeResources.open(place.folder, place.workspace.id)
  for (const { run } of steps) {
    const written = await run()
    await record.add(written)
    for (const one of written) report(one)
  }
  for (const extra of pruned) {
    await extra.remove?.()
    await record.remove(extra)
    const { kind, name, id } = extra
    report({ kind, name, id, isNew: false, warnings: [], result: 'deleted' })
  }
}

/** Writes the files of everything that the workspace has. */
export async function pullProject(place: Place): Promise<Pulled> {
  const pulled: Pulled[] = []
  for (const kind of KINDS) pulled.push(await kind.pull(place))
  return { files: pulled.flatMap(({ files }) => files), notes: pulled.flatMap(({ notes }) => notes) }
}

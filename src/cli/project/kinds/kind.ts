/** The interface of a kind of resources, and the comparison of files with a workspace that all kinds share. */

import type { Place } from '../place.ts'

/** One thing that differs. */
export interface Difference {
  /** The member that differs, or nothing for the whole resource. */
  readonly member?: string
  readonly detail: string
  /** True if something is lost for ever. */
  readonly isLossy?: boolean
  /** True if it has to be done by hand before the project can be applied. */
  readonly isBlocked?: boolean
}

export interface Change {
  readonly kind: string
  readonly name: string
  readonly action: 'create' | 'change' | 'delete'
  readonly differences: readonly Difference[]
}

/** A resource that was written. */
export interface Written {
  readonly kind: string
  readonly name: string
  readonly id: string
  /** True if it was not there before. */
  readonly isNew: boolean
  /** What the API and the file say about it, in sentences. */
  readonly warnings: readonly string[]
  /** Such as `v3`. */
  readonly result?: string
}

/** Changes that are written together. */
export interface Step {
  readonly changes: readonly Change[]
  /** Writes them if the workspace is as it was when the step was planned. @throws Overtaken */
  run(): Promise<readonly Written[]>
}

/** A resource that the workspace has and the project does not. */
export interface Extra {
  readonly kind: string
  readonly name: string
  readonly id: string
  /** Deletes it; refused by the API as long as something depends on it. Absent if a project never deletes it. */
  remove?(): Promise<unknown>
}

export interface KindPlan {
  readonly steps: readonly Step[]
  readonly extras: readonly Extra[]
  /** How many resources are the same. */
  readonly same: number
}

/** @param changed the names of what earlier kinds change, such as `functions/price`, on which others may depend */
export interface Kind {
  plan(place: Place, changed: ReadonlySet<string>): Promise<KindPlan>
  /** Writes the files of what the workspace has. @returns the files that were written, and sentences about what could not be */
  pull(place: Place): Promise<Pulled>
}

export interface Pulled {
  readonly files: readonly string[]
  readonly notes: readonly string[]
}

/** Somebody else has changed a resource since it was planned. */
export class Overtaken extends Error {
  override readonly name = 'Overtaken'

  constructor(what: string, { cause }: { readonly cause?: unknown } = {}) {
    super(
      `${what} was changed by somebody else after the plan was made. It was left as it is now. Look at \`tenon project diff\`, and apply again.`,
      { cause },
    )
  }
}

/** How one kind of resources with names is read, compared and written. */
export interface NamedKind<F, R extends { readonly id: string }> {
  /** In the plural, such as `functions`. */
  readonly kind: string
  parse(place: Place): Promise<ReadonlyMap<string, F>>
  read(place: Place): Promise<ReadonlyMap<string, R>>
  /** @returns nothing if they are the same */
  compare(place: Place, pair: Pair<F, R>): Promise<readonly Difference[]> | readonly Difference[]
  write(place: Place, change: PlannedWrite<F, R>): Promise<Omit<Written, 'kind' | 'name' | 'isNew'>>
  remove?(place: Place, remote: R): Promise<unknown>
}

export interface Pair<F, R> {
  readonly name: string
  readonly file: F
  readonly remote: R
  readonly changed: ReadonlySet<string>
}

interface PlannedWrite<F, R> {
  readonly name: string
  readonly file: F
  /** As it was planned from; undefined if there was none. */
  readonly remote: R | undefined
}

const NEW: readonly Difference[] = [{ detail: 'new' }]

export async function planNamed<F, R extends { readonly id: string }>(
  kind: NamedKind<F, R>,
  place: Place,
  changed: ReadonlySet<string>,
): Promise<KindPlan> {
  const [files, remotes] = await Promise.all([kind.parse(place), kind.read(place)])
  const steps: Step[] = []
  for (const [name, file] of files) {
    const remote = remotes.get(name)
    const differences =
      remote === undefined ? NEW : await kind.compare(place, { name, file, remote, changed })
    if (differences.length === 0) continue
    const action = remote === undefined ? ('create' as const) : ('change' as const)
    steps.push({
      changes: [{ kind: kind.kind, name, action, differences }],
      run: async () => {
        const written = await kind.write(place, { name, file, remote })
        return [{ kind: kind.kind, name, isNew: remote === undefined, ...written }]
      },
    })
  }
  return { steps, extras: extrasOf(kind, place, [files, remotes]), same: files.size - steps.length }
}

function extrasOf<F, R extends { readonly id: string }>(
  kind: NamedKind<F, R>,
  place: Place,
  [files, remotes]: readonly [ReadonlyMap<string, F>, ReadonlyMap<string, R>],
): Extra[] {
  return [...remotes]
    .filter(([name]) => !files.has(name))
    .map(([name, remote]) => ({
      ...{ kind: kind.kind, name, id: remote.id },
      ...(kind.remove && { remove: () => kind.remove?.(place, remote) as Promise<unknown> }),
    }))
}

/** The warnings of an answer of the API: each has a sentence, and where it belongs. */
export function warningsOf(answer: object): string[] {
  const { warnings } = answer as { readonly warnings?: unknown }
  if (!Array.isArray(warnings)) return []
  return warnings.map(({ pointer, detail, message, line, column, code }) =>
    line === undefined ? `${pointer}: ${detail}` : `${line}:${column} ${code}: ${message}`,
  )
}

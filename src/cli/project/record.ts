/** `tenon.lock.json`: the ids of the resources that the project has made in each workspace, which alone it may delete. */

import type { ProjectFolder } from './folder.ts'
import type { Extra, Written } from './kinds/kind.ts'

const FILE = 'tenon.lock.json'

type Ids = Readonly<Record<string, string>>

/** Ids by workspace, and then by kind and name. */
type Content = Readonly<Record<string, Ids>>

const keyOf = ({ kind, name }: { readonly kind: string; readonly name: string }): string => `${kind}/${name}`

export class MadeResources {
  readonly #folder: ProjectFolder
  readonly #workspaceId: string
  #content: Content

  private constructor(folder: ProjectFolder, workspaceId: string, content: Content) {
    this.#folder = folder
    this.#workspaceId = workspaceId
    this.#content = content
  }

  /** @throws Error if the file was broken by hand */
  static async open(folder: ProjectFolder, workspaceId: string): Promise<MadeResources> {
    const text = await folder.read(FILE)
    try {
      return new MadeResources(folder, workspaceId, text === undefined ? {} : (JSON.parse(text) as Content))
    } catch {
      throw new Error(
        `${FILE} is not JSON. Restore it, or delete it: then nothing is known to be made by the project.`,
      )
    }
  }

  get #ids(): Ids {
    return this.#content[this.#workspaceId] ?? {}
  }

  /** True if the project has made this very resource: one of the same name that somebody else has made has another id. */
  hasMade(extra: Extra): boolean {
    return this.#ids[keyOf(extra)] === extra.id
  }

  async add(written: readonly Written[]): Promise<void> {
    const made = written.filter(({ isNew }) => isNew).map((one) => [keyOf(one), one.id])
    if (made.length > 0) await this.#write({ ...this.#ids, ...Object.fromEntries(made) })
  }

  async remove(extra: Extra): Promise<void> {
    await this.#write(Object.fromEntries(Object.entries(this.#ids).filter(([key]) => key !== keyOf(extra))))
  }

  async #write(ids: Ids): Promise<void> {
    const sorted = Object.fromEntries(Object.entries(ids).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    this.#content = { ...this.#content, [this.#workspaceId]: sorted }
    await this.#folder.write(FILE, `${JSON.stringify(this.#content, null, 2)}\n`)
  }
}

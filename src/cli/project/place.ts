/** The workspace that a command is about, and the client of the API. */

import type { Client } from '../../../client/src/index.ts'
import { callerPath, need, operatorOperations, readSettings } from '../settings.ts'
import { ProjectFolder } from './folder.ts'
import { type Manifest, readManifest, type Target, targetOf } from './manifest.ts'

export type Workspace = Awaited<ReturnType<Client['workspaces']['get']>> & {
  /** Absent on servers that do not know it. */
  readonly environment?: string
}

/** The target of a command: a workspace, with the project that is compared with it. */
export interface Place {
  readonly client: Client
  readonly url: string
  readonly workspace: Workspace
  readonly targetName: string
  readonly target: Target
  readonly manifest: Manifest
  readonly folder: ProjectFolder
}

export interface ProjectOptions {
  /** Folder of the project; default: that of the caller. */
  readonly folder?: string
  readonly target?: string
}

/** @throws Error if the settings are for another installation than the target, or the caller may not read its workspace */
export async function openPlace({ folder: path = '.', target: named }: ProjectOptions): Promise<Place> {
  const folder = await ProjectFolder.open(callerPath(path))
  const manifest = await readManifest(folder)
  const [targetName, target] = targetOf(manifest, named)
  const url = need(await readSettings(), 'TENON_URL')
  requireSameInstallation(targetName, target, url)
  const client = await operatorOperations()
  const workspace = await findWorkspace(client, target.workspace)
  return { client, url, workspace, targetName, target, manifest, folder }
}

/** A credential is for the installation of TENON_URL alone. */
function requireSameInstallation(name: string, { url }: Target, used: string): void {
  if (url === undefined || new URL(url).origin === new URL(used).origin) return
  throw new Error(
    `The target ${name} is at ${url}, and TENON_URL is ${used}. Set TENON_URL and a credential of ${url}.`,
  )
}

/** @param named an id, or a slug @throws Error if there is no such workspace, or several have the slug */
export async function findWorkspace(client: Client, named: string): Promise<Workspace> {
  if (named.startsWith('ws_')) return client.workspaces.get({ id: named })
  const all = await allPages((page) => client.workspaces.list(page))
  const found = all.filter(({ slug }) => slug === named)
  if (found.length === 1 && found[0] !== undefined) return found[0]
  const reason = found.length === 0 ? 'There is no workspace' : `${found.length} workspaces have the slug`
  throw new Error(`${reason} ${named}. Write the id of the workspace as the target.`)
}

/** For each list alike: a page has at most this many items. */
const PAGE_SIZE = 200

interface PageOf<T> {
  readonly data: readonly T[]
  readonly page: { readonly next: string | null }
}

/** All items of a list. */
export async function allPages<T>(
  list: (page: { page_size: number; page_after?: string }) => Promise<PageOf<T>>,
): Promise<T[]> {
  const items: T[] = []
  let after: string | null | undefined
  do {
    const input: { page_size: number; page_after?: string } = { page_size: PAGE_SIZE }
    if (typeof after === 'string') input.page_after = after
    const { data, page } = await list(input)
    items.push(...data)
    after = page.next
  } while (after !== null)
  return items
}

/** Runs the work for each item, for few of them at a time. @returns the results in the order of the items */
export async function runEach<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at] as T)
  }
  await Promise.all(Array.from({ length: 16 }, worker))
  return results
}

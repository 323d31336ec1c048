/** `tenon project dev`: applies each saved change to a development workspace, and keeps the types of its collections. */

import { watch } from 'node:fs/promises'
import { sep } from 'node:path'
import { collectionsFile, type DeclaredCollection, isEdited } from '../types/collection-types.ts'
import { printError, printLine } from '../verb.ts'
import { readManifest } from './manifest.ts'
import { openPlace, type Place, type ProjectOptions } from './place.ts'
import { carryOut, lossyOf, planProject, requireApplicable } from './plan.ts'
import { environmentOf, printPlace, printWritten } from './print.ts'

/** Editors write a file in several steps. */
const SETTLE_MS = 50

/** Files that the command writes itself. */
const OWN_FILES = ['tenon.lock.json']

/**
 * Applies the project at once and after each change, until it is interrupted. An error is printed, and the workspace keeps what it had.
 * @throws Error if the workspace is not one for development, whatever the environment of the command says
 */
export async function dev(options: ProjectOptions): Promise<number> {
  const place = await openPlace(options)
  requireDevelopment(place)
  printPlace(place)
  // One after the other, so that the last change is the last version.
  let done = Promise.resolve()
  let changedMs: number | undefined = performance.now()
  const reapply = () => {
    const sinceMs = changedMs ?? performance.now()
    changedMs = undefined
    done = done
      .then(() => applyOnce(place))
      .then((count) => printLine(`${counted(count)} in ${Math.round(performance.now() - sinceMs)} ms`))
      .catch(printError)
  }
  reapply()
  process.stderr.write('Watching the project. Press Ctrl-C to stop.\n')
  let timer: NodeJS.Timeout | undefined
  for await (const { filename } of watch(place.folder.root, { recursive: true })) {
    if (filename !== null && isIgnored(place, filename)) continue
    changedMs ??= performance.now()
    clearTimeout(timer)
    timer = setTimeout(reapply, SETTLE_MS)
  }
  return 0
}

const counted = (count: number): string =>
  count === 0 ? 'Nothing to change' : `${count} ${count === 1 ? 'change' : 'changes'} applied`

const isIgnored = ({ manifest }: Place, file: string): boolean => {
  const parts = file.split(sep)
  return (
    parts.some((part) => part.startsWith('.') || part === 'node_modules') ||
    [...OWN_FILES, manifest.types].includes(file)
  )
}

/** @throws Error for a workspace that is not marked as one for development */
function requireDevelopment(place: Place): void {
  if (environmentOf(place) === 'development') return
  const { slug, id } = place.workspace
  throw new Error(
    `The workspace ${slug} is one of production, to which each saved file is never applied. Make one with \`tenon workspace create --environment development\`, or mark it: tenon workspace update ${id} --environment development`,
  )
}

/** @returns how many resources were written @throws Error that leaves the workspace as it was, or partly changed */
async function applyOnce(opened: Place): Promise<number> {
  // Both may have changed; the id of the workspace is that with which the command began.
  const [manifest, workspace] = await Promise.all([
    readManifest(opened.folder),
    opened.client.workspaces.get({ id: opened.workspace.id }),
  ])
  const place = { ...opened, manifest, workspace }
  requireDevelopment(place)
  const plan = await planProject(place)
  const [lossy] = lossyOf(plan)
  if (lossy !== undefined)
    throw new Error(
      `${lossy.kind}/${lossy.name} loses something for ever: look at \`tenon project diff\`, and use \`tenon project apply\`.`,
    )
  await requireApplicable(place, plan)
  await carryOut(place, plan, printWritten)
  await writeTypes(place)
  return plan.changes.length
}

/** @throws Error if the file was edited by hand, so that no edit is lost */
async function writeTypes({ client, workspace, folder, manifest: { types } }: Place): Promise<void> {
  if (types === undefined) return
  const { schemas } = await client.schemas.export({ workspace_id: workspace.id })
  const before = await folder.read(types)
  if (before !== undefined && isEdited(before))
    throw new Error(
      `${types} was edited by hand, or is another file. Move your own types, and delete the file.`,
    )
  if (await folder.write(types, collectionsFile(schemas as unknown as DeclaredCollection[]))) printLine(types)
}

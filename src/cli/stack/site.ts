/** The documentation site of the current pages, in a folder beside the builds. */

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BUILDS, PROJECT_DIR } from '../../../stack/project.mjs'
import { COPIED_FILES, sourceFiles } from '../../site/sources.ts'

const SITE_SOURCES = join(PROJECT_DIR, 'src/site')

/** The folder of the site of these pages; it is empty until {@link currentSite} has written it. */
export async function siteFolder(): Promise<string> {
  const hash = createHash('sha256').update(readFileSync(join(PROJECT_DIR, 'package-lock.json')))
  const own = readdirSync(SITE_SOURCES, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  const pages = [...sourceFiles(PROJECT_DIR), ...COPIED_FILES.map(([file]) => file)]
  for (const file of [...own, ...pages.map((page) => join(PROJECT_DIR, page))].toSorted())
    hash.update(file.slice(PROJECT_DIR.length)).update(readFileSync(file))
  const folder = join(BUILDS, `site-${hash.digest('hex').slice(0, 24)}`)
  await mkdir(folder, { recursive: true })
  return folder
}

let written: Promise<string> | undefined

/** Writes the site if nobody has, in about 4 s. */
export function currentSite(): Promise<string> {
  written ??= find()
  return written
}

async function find(): Promise<string> {
  const folder = await siteFolder()
  if (!existsSync(join(folder, 'llms.txt'))) await make(folder)
  return folder
}

/** Writes into a draft folder and renames it: requests find the whole site or none, and concurrent writers do not conflict. */
async function make(folder: string): Promise<void> {
  const { buildSite } = await import('../../site/build.ts')
  const draft = await mkdtemp(join(BUILDS, 'draft-'))
  try {
    await buildSite(PROJECT_DIR, draft)
    await rename(draft, folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

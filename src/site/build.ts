/** Writes the site: a page and its Markdown for each source, `llms.txt`, the index of the search, style and script. */

import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import MiniSearch from 'minisearch'
import { type ApiDocument, apiGroups, apiPages } from './api-pages.ts'
import { CONTENTS } from './contents.ts'
import { navigationOf, pageHtml } from './layout.ts'
import { renderMarkdown } from './markdown.ts'
import { COPIED_FILES, pathOf, plain, readPages, type SitePage } from './sources.ts'

const SUMMARY =
  'One backend for many tenants: JSON documents, objects, events, sandboxed functions, durable flows and MCP servers behind one REST API.'
const ASSETS = join(import.meta.dirname, 'assets')

/** @param root folder of the repository, or of a package of it */
export async function buildSite(root: string, folder: string): Promise<void> {
  const document = JSON.parse(
    await readFile(join(root, 'docs/reference/openapi.json'), 'utf8'),
  ) as ApiDocument
  const own = readPages(root)
  const pages = [...own, ...apiPages(document)]
  const navigation = navigationOf(pages, apiGroups(document))
  for (const page of pages) {
    await put(folder, `${page.path}.html`, pageHtml(page, navigation))
    await put(folder, `${page.path}.md`, page.text)
  }
  for (const [file, path] of COPIED_FILES) await copyInto(join(root, file), join(folder, path))
  await put(folder, 'llms.txt', llmsText(own, pages))
  await writeAssets(folder, searchIndex(pages))
}

async function put(folder: string, path: string, text: string): Promise<void> {
  const file = join(folder, path)
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}

async function copyInto(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true })
  await copyFile(from, to)
}

/** The index is large, and is sent compressed to browsers that accept it. */
async function writeAssets(folder: string, index: string): Promise<void> {
  for (const name of ['site.css', 'icon.svg'])
    await copyInto(join(ASSETS, name), join(folder, 'assets', name))
  await put(folder, 'assets/search.json', index)
  await writeFile(join(folder, 'assets/search.json.gz'), await promisify(gzip)(index))
  const { build } = await import('esbuild')
  const entryPoints = [join(ASSETS, 'site.js')]
  await build({
    entryPoints,
    outdir: join(folder, 'assets'),
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
  })
}

const line = ({ path, title, description }: SitePage) => `- [${title}](/docs/${path}.md): ${description}`

/** The pages by reader, then those that pages of folders list, then the API. */
function llmsText(own: readonly SitePage[], all: readonly SitePage[]): string {
  const byPath = new Map(all.map((page) => [page.path, page]))
  const groups = CONTENTS.map(({ title, reader, pages }) => {
    const lines = pages.flatMap((file) => byPath.get(pathOf(file)) ?? []).map(line)
    return `## ${title}\n${reader}\n\n${lines.join('\n')}\n`
  })
  const listed = new Set(CONTENTS.flatMap(({ pages }) => pages).map(pathOf))
  const others = own.filter(({ path }) => !listed.has(path))
  const api = all.filter(({ path }) => path.startsWith('api/'))
  return [
    `# Tenon\n\n> ${SUMMARY}\n`,
    ...groups,
    `## API\nEvery operation has a page.\n\n${api.map(line).join('\n')}\n`,
    `## Optional\n\n${others.map(line).join('\n')}\n`,
  ].join('\n')
}

interface Section {
  readonly id: string
  readonly title: string
  readonly heading: string
  readonly text: string
}

/** assets/site.js reads the index with the same fields. */
const FIELDS = { fields: ['title', 'heading', 'text'], storeFields: ['title', 'heading'] }

/** The sections of all pages, by their headings and their prose. */
function searchIndex(pages: readonly SitePage[]): string {
  const index = new MiniSearch<Section>(FIELDS)
  index.addAll(pages.flatMap(sectionsOf))
  return JSON.stringify(index)
}

/**
 * Parts below headings of the first to third level, of an operation the whole page. Code is left out, which would be half of the index; names of it
 * stand in the prose.
 */
function sectionsOf({ path, title, text }: SitePage): Section[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, '')
  if (path.startsWith('api/')) return [{ id: `${path}.html`, title, heading: '', text: words(prose) }]
  const parts = prose.split(/^#{1,3} .*$/m).slice(1)
  const headings = renderMarkdown(text).headings.filter(({ level }) => level <= 3)
  return headings.map(({ text: heading, anchor, level }, index) => ({
    id: `${path}.html${level === 1 ? '' : `#${anchor}`}`,
    title,
    heading: level === 1 ? '' : heading,
    text: words(parts[index] ?? ''),
  }))
}

const words = (text: string): string => plain(text.replaceAll(/[|#]/g, ' '))

/** Reads the pages of the repository, and says where each stands in the site. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { CONTENTS, FOLDERS } from './contents.ts'

export interface SitePage {
  /** Without its extension, such as `queries` or `internals/index`: a `.html` and a `.md` stand there. */
  readonly path: string
  readonly title: string
  /** The first sentence. */
  readonly description: string
  /** The page in the contents to which it belongs, if it does not stand there and has another one than the index of its folder. */
  readonly within?: string
  /** Markdown whose links lead to `.md` files of the site. */
  readonly text: string
}

/** Pages that do not stand in the site where they stand in the repository. */
const MOVED: Readonly<Record<string, string>> = {
  'README.md': 'index',
  'CONTRIBUTING.md': 'contributing/index',
  'CHANGELOG.md': 'changelog',
  'flows-dsl/README.md': 'flow-language',
  'flows-dsl/jq/README.md': 'flow-expressions',
  'test/README.md': 'contributing/tests',
}

/** Links to generated files that are no pages, and where they stand. */
const FILES: Readonly<Record<string, string>> = {
  'docs/reference/openapi.json': 'reference/openapi.json',
  'docs/reference/flow-schema.json': 'reference/flow-schema.json',
  'docs/reference/policy.txt': 'reference/policy.txt',
}
export const COPIED_FILES = Object.entries(FILES)

/** The files of all pages: those of the contents, and of folders with a list of their own. */
export function sourceFiles(root: string): string[] {
  const inFolders = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder)).map((name) => `${folder}/${name}`),
  )
  const listed = CONTENTS.flatMap(({ pages }) => pages)
  return [...new Set([...listed, ...inFolders])].filter((file) => file.endsWith('.md'))
}

/** Where the page of a file stands. */
export function pathOf(file: string): string {
  const moved = MOVED[file]
  if (moved !== undefined) return moved
  const inDocs = file.replace(/^docs\//, '').replace(/\.md$/, '')
  // An example is one page; the page of a folder of docs is its index.
  return file.startsWith('examples/') ? dirname(inDocs) : inDocs.replace(/(^|\/)README$/, '$1index')
}

export function readPages(root: string): SitePage[] {
  const files = sourceFiles(root)
  const known = new Set(files)
  return files.map((file) => {
    const text = withSiteLinks(readFileSync(join(root, file), 'utf8'), file, known)
    return { path: pathOf(file), title: titleOf(text), description: descriptionOf(text), text }
  })
}

const titleOf = (text: string): string => plain(/^# (.*)$/m.exec(text)?.[1] ?? '')

/** The first sentence of the first paragraph, with what follows if it is as short as "One page." is. */
function descriptionOf(text: string): string {
  const blocks = text
    .replaceAll(/```[\s\S]*?```|^#+ .*$/gm, '\n')
    .split(/\n\s*\n|\n(?=\||- |\d+\. )/)
    .map((one) => one.trim().replaceAll(/\s+/g, ' '))
    .filter((one) => one !== '' && !/^[|<>]/.test(one))
  const isItem = (one: string) => /^(-|\d+\.) /.test(one)
  const from = Math.max(
    blocks.findIndex((one) => !isItem(one)),
    0,
  )
  const all = plain(
    blocks
      .slice(from)
      .map((one) => one.replace(/^(-|\d+\.) /, ''))
      .join(' '),
  )
  return (/^.{25,}?[.:!?](?=\s|$)/.exec(all)?.[0] ?? all).replace(/:$/, '.')
}

/** A text without the marks of Markdown. */
export const plain = (text: string): string =>
  text
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*]|<\/?a\b[^>]*>|<br>/g, '')
    .trim()

const LINK = /\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)/g

/** Lets links lead to the `.md` files of the site; links to other files of the repository become text. */
function withSiteLinks(text: string, file: string, pages: ReadonlySet<string>): string {
  const rewrite = (part: string) =>
    part.replace(LINK, (link: string, label: string, target: string, anchor = '') => {
      if (/^[a-z]+:/.test(target) || target === '') return link
      const found = siteTarget(posix.join(dirname(file), target), pages)
      return found === undefined ? label : `[${label}](${relativeLink(pathOf(file), found)}${anchor})`
    })
  // The odd parts are blocks of code.
  return text
    .split(/(^```[\s\S]*?^```)/m)
    .map((part, index) => (index % 2 === 0 ? rewrite(part) : part))
    .join('')
}

function siteTarget(file: string, pages: ReadonlySet<string>): string | undefined {
  const page = [file, posix.join(file, 'README.md')].find((one) => pages.has(one) || one === 'README.md')
  return page === undefined ? FILES[file] : `${pathOf(page)}.md`
}

/** @param from the page whose link it is */
export function relativeLink(from: string, to: string): string {
  const link = posix.relative(posix.dirname(from), to)
  return link === '' ? posix.basename(to) : link
}

/** Pages of `docs` that are not in the site: generated tables for other pages are none. */
export function orphans(root: string): string[] {
  const known = new Set(sourceFiles(root))
  const files = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  return files
    .map((name) => `docs/${name.replaceAll('\\', '/')}`)
    .filter((name) => name.endsWith('.md') && !known.has(name))
}

/** Files of the contents that do not exist. */
export const missing = (root: string): string[] =>
  sourceFiles(root).filter((file) => !existsSync(join(root, file)))

/** The HTML around a page: header with search, contents by reader, headings of the page. No inline style or script. */

import { posix } from 'node:path'
import { CONTENTS } from './contents.ts'
import { escapeHtml, type Rendered, renderMarkdown } from './markdown.ts'
import { pathOf, relativeLink, type SitePage } from './sources.ts'

export interface Navigation {
  readonly title: string
  readonly items: readonly { readonly title: string; readonly path: string }[]
}

/** The contents, with the groups of the API reference behind the pages of app developers. */
export function navigationOf(
  pages: readonly SitePage[],
  api: readonly { readonly title: string; readonly path: string }[],
): Navigation[] {
  const titles = new Map(pages.map(({ path, title }) => [path, title]))
  const own = CONTENTS.map(({ title, pages: files }) => ({
    title,
    items: files.map((file) => ({ title: titles.get(pathOf(file)) ?? file, path: pathOf(file) })),
  }))
  const reference = { title: 'API', items: [{ title: 'All groups', path: 'api/index' }, ...api] }
  const at = own.findIndex(({ title }) => title === 'Reference')
  return own.toSpliced(at, 0, reference)
}

/** The item of the contents that a page belongs to. */
function itemOf(page: SitePage, navigation: readonly Navigation[]): string {
  const known = navigation.flatMap(({ items }) => items).map(({ path }) => path)
  return known.includes(page.path) ? page.path : (page.within ?? `${posix.dirname(page.path)}/index`)
}

function contentsHtml(page: SitePage, navigation: readonly Navigation[]): string {
  const current = itemOf(page, navigation)
  return navigation
    .map(({ title, items }) => {
      const lines = items.map((item) => {
        const mark = item.path === current ? ' aria-current="page"' : ''
        return `<li><a href="${relativeLink(page.path, `${item.path}.html`)}"${mark}>${escapeHtml(item.title)}</a></li>`
      })
      const open = items.some(({ path }) => path === current) ? ' open' : ''
      return `<details${open}><summary>${escapeHtml(title)}</summary><ul>${lines.join('')}</ul></details>`
    })
    .join('\n')
}

function headingsHtml({ headings }: Rendered): string {
  const those = headings.filter(({ level }) => level === 2 || level === 3)
  if (those.length < 3) return ''
  const items = those.map(
    ({ level, text, anchor }) =>
      `<li class="level${level}"><a href="#${anchor}">${escapeHtml(text)}</a></li>`,
  )
  return `<nav class="headings" aria-label="On this page"><h2>On this page</h2><ul>${items.join('')}</ul></nav>`
}

export function pageHtml(page: SitePage, navigation: readonly Navigation[]): string {
  const rendered = renderMarkdown(page.text)
  const link = (path: string) => relativeLink(page.path, path)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(page.title)}${page.path === 'index' ? '' : ' · Tenon'}</title>
<meta name="description" content="${escapeHtml(page.description)}">
<link rel="stylesheet" href="${link('assets/site.css')}">
<link rel="icon" href="${link('assets/icon.svg')}">
<link rel="alternate" type="text/markdown" href="${link(`${page.path}.md`)}">
<script src="${link('assets/site.js')}" defer></script>
</head>
<body data-root="${posix.relative(posix.dirname(page.path), '.') || '.'}">
<a class="skip" href="#page">Skip to the page</a>
<header>
<a class="brand" href="${link('index.html')}">Tenon</a>
<search hidden><label for="query" class="unseen">Search the documentation</label><input id="query" type="search" placeholder="Search" autocomplete="off" aria-controls="found"><div id="found" hidden><p role="status"></p><ol></ol></div></search>
<a class="to-contents" href="#contents">Contents</a>
</header>
<div class="columns">
<main id="page">
${rendered.html}
<footer><a href="${link(`${page.path}.md`)}">This page as Markdown</a></footer>
</main>
${headingsHtml(rendered)}
<nav id="contents" aria-label="Contents">
${contentsHtml(page, navigation)}
</nav>
</div>
</body>
</html>
`
}

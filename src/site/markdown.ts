/** Turns the Markdown of a page into HTML: anchors as GitHub makes them, highlighted code, tables that scroll by themselves. */

import { createRequire } from 'node:module'
import { Marked, Renderer, type Tokens } from 'marked'
import { plain } from './sources.ts'

interface Highlighter {
  registerLanguage(name: string, language: unknown): void
  getLanguage(name: string): unknown
  highlight(code: string, options: { language: string }): { readonly value: string }
}

/** Not by `import`: its types would give every file of this project the types of a browser. */
const require = createRequire(import.meta.url)
const highlighter: Highlighter = require('highlight.js/lib/core')
const LANGUAGES = ['bash', 'http', 'ini', 'javascript', 'json', 'python', 'sql', 'typescript', 'xml', 'yaml']
for (const name of LANGUAGES)
  highlighter.registerLanguage(name, require(`highlight.js/lib/languages/${name}`))

interface Heading {
  readonly level: number
  readonly text: string
  readonly anchor: string
}

export interface Rendered {
  readonly html: string
  readonly headings: readonly Heading[]
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
export const escapeHtml = (text: string): string =>
  text.replaceAll(/[&<>"]/g, (character) => ENTITIES[character] ?? '')

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
    .trim()
    .replaceAll(' ', '-')

function codeHtml({ text, lang = '' }: Tokens.Code): string {
  const isKnown = highlighter.getLanguage(lang) !== undefined
  const code = isKnown ? highlighter.highlight(text, { language: lang }).value : escapeHtml(text)
  // Whoever has no mouse scrolls it by keys.
  return `<pre tabindex="0"><code>${code}\n</code></pre>\n`
}

/** Tags that pages have; any other is shown as text. */
const TAG = /^\s*(<a id="[\w-]+">|<\/a>|<br>)+\s*$/
const tagOrText = ({ text }: Tokens.HTML | Tokens.Tag) => (TAG.test(text) ? text : escapeHtml(text))

export function renderMarkdown(text: string): Rendered {
  const headings: Heading[] = []
  const parser = new Marked({
    renderer: {
      code: codeHtml,
      html: tagOrText,
      heading({ tokens, depth, text: source }) {
        const heading = { level: depth, text: plain(source), anchor: freeAnchor(plain(source), headings) }
        headings.push(heading)
        return `<h${depth} id="${heading.anchor}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      table(token) {
        return `<div class="wide" tabindex="0">${Renderer.prototype.table.call(this, token)}</div>\n`
      },
      link(token) {
        return Renderer.prototype.link.call(this, { ...token, href: htmlLink(token.href) })
      },
    },
  })
  const html = parser.parse(text, { async: false })
  return { html, headings }
}

/** Of headings with the same words, each after the first has a number. */
function freeAnchor(label: string, headings: readonly Heading[]): string {
  const own = anchorOf(label)
  const before = headings.filter((one) => anchorOf(one.text) === own).length
  return before === 0 ? own : `${own}-${before}`
}

/** Links between pages lead to the page for people. */
const htmlLink = (href: string): string =>
  /^[a-z]+:/.test(href) ? href : href.replace(/\.md(?=#|$)/, '.html')

/** Search and copy buttons of the documentation. Without this script, pages and contents work as well. */

import MiniSearch from 'minisearch'

const RESULTS_MAX = 12
const { root } = document.body.dataset
const area = document.querySelector('search')
const input = document.querySelector('#query')
const found = document.querySelector('#found')
const [status, list] = [found.querySelector('p'), found.querySelector('ol')]

let loading
/** Loads the index once, when somebody first turns to the search. */
function index() {
  loading ??= load().catch((error) => {
    // The next attempt loads it again.
    loading = undefined
    throw error
  })
  return loading
}

function load() {
  return fetch(`${root}/assets/search.json`)
    .then((response) => response.text())
    .then((text) =>
      MiniSearch.loadJSON(text, { fields: ['title', 'heading', 'text'], storeFields: ['title', 'heading'] }),
    )
}

function itemOf({ id, title, heading }) {
  const [item, link] = [document.createElement('li'), document.createElement('a')]
  link.href = `${root}/${id}`
  link.textContent = heading || title
  if (heading) {
    const where = document.createElement('small')
    where.textContent = title
    link.append(where)
  }
  item.append(link)
  return item
}

/** Tasks come before single operations, and these before what contributors read. */
function weightOf(id) {
  if (id.startsWith('api/')) return 0.5
  return /^(decisions|internals|contributing|changelog)/.test(id) ? 0.25 : 1
}

const OPTIONS = {
  prefix: true,
  fuzzy: 0.15,
  boost: { title: 4, heading: 3 },
  combineWith: 'AND',
  boostDocument: weightOf,
}

/** What is typed last counts, however long the index takes. */
async function show() {
  const query = input.value.trim()
  found.hidden = query === ''
  if (query === '') return
  status.textContent = 'Searching …'
  const results = (await index()).search(query, OPTIONS)
  if (query !== input.value.trim()) return
  status.textContent = results.length === 0 ? 'Nothing found' : `${results.length} found`
  list.replaceChildren(...results.slice(0, RESULTS_MAX).map(itemOf))
}

function close() {
  found.hidden = true
}

area.hidden = false
// A failure shows when something is typed.
input.addEventListener('focus', () => {
  index().catch(() => {})
})
input.addEventListener('input', () => {
  show().catch(() => {
    status.textContent = 'The search cannot be loaded.'
  })
})
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') close()
  if (event.key === '/' && event.target === document.body) {
    event.preventDefault()
    input.focus()
  }
})
document.addEventListener('click', (event) => area.contains(event.target) || close())

/** Browsers have a clipboard on pages behind https and of this machine alone. */
const blocks = navigator.clipboard === undefined ? [] : document.querySelectorAll('main pre')
for (const block of blocks) {
  const [frame, button] = [document.createElement('div'), document.createElement('button')]
  frame.className = 'code'
  button.type = 'button'
  button.textContent = 'Copy'
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(block.textContent).then(
      () => {
        button.textContent = 'Copied'
      },
      () => {
        button.textContent = 'Not allowed'
      },
    )
  })
  block.replaceWith(frame)
  frame.append(block, button)
}

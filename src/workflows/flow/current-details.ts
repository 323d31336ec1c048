/** Writes the current details of an execution for the Temporal UI: names of the definition, never data. */

import { setCurrentDetails } from '@temporalio/workflow'
import { clip, utf8Length } from '../../../flows-dsl/json.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'

/** Of many steps at once so many are named. */
const NAMED_MAX = 10

/** Of the tasks around a step so much is named, the inner ones first of all. */
const AROUND_BYTES_MAX = 120
const LINE_BYTES_MAX = 200

/** What stands beside a call or a timer of a step: the way to it by the names of tasks, and what it does. */
export function summaryLine({ breadcrumbs: around, summary }: StepRef): string {
  if (around === '') return summary
  let way = around
  while (utf8Length(way) > AROUND_BYTES_MAX && way.includes(' / ')) way = way.slice(way.indexOf(' / ') + 3)
  return clip(`${way === around ? '' : '… / '}${way} / ${summary}`, LINE_BYTES_MAX)
}

export class CurrentDetails {
  readonly #title: string
  readonly #open = new Set<{ readonly line: string }>()
  #isEnded = false

  /** @param title a line of Markdown */
  constructor(title: string) {
    this.#title = title
    this.#show()
  }

  /** The run calls, sleeps or waits there. @returns what says that it does not any more */
  addStep({ pointer, summary }: Pick<StepRef, 'pointer' | 'summary'>): () => void {
    const entry = { line: `- ${inlineCode(pointer)}: ${inlineCode(summary)}` }
    this.#open.add(entry)
    this.#show()
    return () => {
      if (this.#open.delete(entry)) this.#show()
    }
  }

  /** @param how a line of Markdown */
  ended(how: string): void {
    this.#isEnded = true
    setCurrentDetails(`${this.#title}\n\n${how}`)
  }

  #show(): void {
    if (this.#isEnded) return
    const lines: string[] = []
    for (const { line } of this.#open) {
      if (lines.length === NAMED_MAX) break
      lines.push(line)
    }
    const more = this.#open.size - lines.length
    if (more > 0) lines.push(`- and ${more} more`)
    setCurrentDetails(lines.length === 0 ? this.#title : `${this.#title}\n\nNow at\n\n${lines.join('\n')}`)
  }
}

/** As it is: whoever writes a definition makes no links and images in the pages of operators. */
export function inlineCode(text: string): string {
  return `\`${text.replaceAll('`', "'").replaceAll(/\s+/g, ' ')}\``
}

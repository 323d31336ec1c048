/** Writes the current details of an execution for the Temporal UI: names of the definition, never data. */

import { setCurrentDetails } from '@temporalio/workflow'
import { type ErrorObject, REJECTED, standardError } from '../../../flows-dsl/errors.ts'
import { clip, utf8Length } from '../../../flows-dsl/json.ts'
import type { StepRef } from '../../../flows-dsl/tasks/task.ts'

/** Number of steps that are listed. */
const NAMED_MAX = 10

/** Bound of the breadcrumbs before a step; the outermost are cut first. */
const BREADCRUMBS_BYTES_MAX = 120
const LINE_BYTES_MAX = 200

/** The summary of a call or timer: the enclosing tasks by name, and what the step does. */
export function summaryLine({ breadcrumbs, summary }: StepRef): string {
  if (breadcrumbs === '') return summary
  let shown = breadcrumbs
  while (utf8Length(shown) > BREADCRUMBS_BYTES_MAX && shown.includes(' / '))
    shown = shown.slice(shown.indexOf(' / ') + 3)
  return clip(`${shown === breadcrumbs ? '' : '… / '}${shown} / ${summary}`, LINE_BYTES_MAX)
}

/** The list of active steps of an execution. */
export class CurrentDetails {
  readonly #title: string
  readonly #open = new Set<{ readonly line: string }>()
  #notice = ''
  #isEnded = false

  /** @param title a line of Markdown */
  constructor(title: string) {
    this.#title = title
    this.#show()
  }

  /** Lists a step that calls, sleeps or waits. @returns a function that removes it */
  addStep({ pointer, summary }: Pick<StepRef, 'pointer' | 'summary'>): () => void {
    const entry = { line: `- ${inlineCode(pointer)}: ${inlineCode(summary)}` }
    this.#open.add(entry)
    this.#show()
    return () => {
      if (this.#open.delete(entry)) this.#show()
    }
  }

  /** Shows what stops the execution above the steps. @param notice lines of Markdown */
  setNotice(notice = ''): void {
    if (notice === this.#notice) return
    this.#notice = notice
    this.#show()
  }

  /** Replaces the list by the outcome. @param outcome a line of Markdown */
  end(outcome: string): void {
    this.#isEnded = true
    setCurrentDetails(`${this.#title}\n\n${outcome}`)
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
    const steps = lines.length === 0 ? '' : `Now at\n\n${lines.join('\n')}`
    setCurrentDetails([this.#title, this.#notice, steps].filter((part) => part !== '').join('\n\n'))
  }
}

/** Shown instead of an error type that the flow defines, since an expression may have put data into it. */
const CUSTOM_TYPE = 'https://tenon.dev/errors/raised'

/** The type of an error that operators may read: a standard one, or one that stands for all that flows define. */
export function plainErrorType({ type }: ErrorObject): string {
  return standardError(type)?.type ?? (type === REJECTED.type ? type : CUSTOM_TYPE)
}

/** Type and status of an error, such as `communication (503)`. */
export function errorSummary(error: ErrorObject): string {
  const type = plainErrorType(error)
  return `${type.slice(type.lastIndexOf('/') + 1)} (${error.status})`
}

/** Inline code in Markdown: text of a definition must not become links or images in an operator's page. */
export function inlineCode(text: string): string {
  return `\`${text.replaceAll('`', "'").replaceAll(/\s+/g, ' ')}\``
}

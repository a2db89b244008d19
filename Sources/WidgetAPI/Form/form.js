// Behaviour of a configuration form. The server renders rows and values; a control's value is read from its elements.
const form = document.getElementById('form')
const status = document.getElementById('status')
const rows = [...form.querySelectorAll('.row')]
const texts = JSON.parse(form.querySelector(':scope > script').textContent)

// MARK: Values

/** Value of one control; undefined: none. */
function controlValue(row, element) {
  const input = element.matches('input, textarea') ? element : element.querySelector('input')
  const text = input.value.trim()
  switch (row.dataset.control) {
    case 'list': {
      const combo = input.closest('.combo')
      return combo.dataset.value ? JSON.parse(combo.dataset.value) : undefined
    }
    case 'switch': return input.checked
    case 'locationPicker': {
      const place = {}
      for (const part of element.querySelectorAll('[data-key]')) {
        if (part.value.trim() === '') continue
        place[part.dataset.key] = part.type === 'number' ? Number(part.value) : part.value.trim()
      }
      return Object.keys(place).length ? place : undefined
    }
    default: {
      if (text === '' || 'unset' in input.dataset) return undefined
      if (input.matches('textarea')) return input.value
      if ('time' in input.dataset) return new Date(text).toISOString()
      return row.dataset.type === 'number' ? Number(text) : text
    }
  }
}

const items = row => [...row.querySelectorAll(':scope > ol > li')]
const control = element => element.querySelector(':scope > input, :scope > textarea, :scope > span:not(.order)')

/** Rows that the person has changed. The others keep their values as they were, whatever a control makes of them. */
const touched = new Set()

function rowValue(row) {
  if (!touched.has(row)) return 'stored' in row.dataset ? JSON.parse(row.dataset.stored) : undefined
  if (!('several' in row.dataset)) return controlValue(row, control(row))
  return items(row).map(item => controlValue(row, control(item))).filter(value => value !== undefined)
}

/** The configuration: values of all rows, also of hidden ones, which are kept. */
function configuration() {
  const values = {}
  for (const row of rows) {
    const value = rowValue(row)
    // A value that was taken away is null, so that no default of the provider takes its place.
    if (value !== undefined || touched.has(row)) values[row.dataset.parameter] = value ?? null
  }
  return values
}

/** A value as it counts for the timeline: without its display string. */
function bare(value) {
  if (Array.isArray(value)) return value.map(bare)
  if (value === null || typeof value !== 'object') return value
  return 'identifier' in value ? value.identifier : { latitude: value.latitude, longitude: value.longitude }
}

// MARK: Rows that depend on others

/** A value as it is compared: an empty text or list is none. */
function comparable(row, value) {
  if (value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) return 'null'
  return JSON.stringify(row.dataset.type === 'date' && value?.includes?.('T') ? Date.parse(value) : value)
}

function isShown(row) {
  if (row.dataset.parent === undefined) return true
  const parent = rows.find(other => other.dataset.parameter === row.dataset.parent)
  if (!isShown(parent)) return false
  const value = comparable(parent, bare(rowValue(parent)))
  if (!('hasExactly' in row.dataset)) return value !== 'null'
  return value === comparable(parent, JSON.parse(row.dataset.hasExactly))
}

function update() {
  for (const row of rows) {
    row.hidden = !isShown(row)
    if ('several' in row.dataset) {
      const count = items(row).length
      const limit = Number(row.dataset.limit ?? Infinity)
      row.querySelector('.add').disabled = count >= limit
      const words = texts.count.replace('{count}', count).replace('{limit}', limit)
      row.querySelector('.count').textContent = limit < Infinity ? words : ''
      items(row).forEach((item, index, all) => {
        item.querySelector('.up').disabled = index === 0
        item.querySelector('.down').disabled = index === all.length - 1
      })
    }
    for (const range of row.querySelectorAll('input[type=range]')) {
      const isUnset = 'unset' in range.dataset
      const text = isUnset ? texts.notSet : range.value
      range.setAttribute('aria-valuetext', text)
      range.parentElement.querySelector('output').textContent = text
      const clear = range.parentElement.querySelector('.clear')
      if (clear) clear.hidden = isUnset
    }
  }
}

form.addEventListener('input', event => {
  delete event.target.dataset.unset
  touched.add(event.target.closest('.row'))
  showProblem(event.target.closest('.row'), '')
  update()
})

// A click where an unset slider stands sets it, too.
form.addEventListener('pointerup', event => {
  if ('unset' in event.target.dataset) event.target.dispatchEvent(new Event('input', { bubbles: true }))
})

form.addEventListener('click', event => {
  const button = event.target.closest('button')
  if (!button || button.type === 'submit') return
  const row = button.closest('.row')
  const item = button.closest('li')
  const action = button.classList
  touched.add(row)
  if (action.contains('less') || action.contains('more')) {
    const input = button.parentElement.querySelector('input')
    if (input.value === '') input.value = input.min || '0'
    else if (action.contains('less')) input.stepDown()
    else input.stepUp()
    input.dispatchEvent(new Event('input', { bubbles: true }))
  } else if (action.contains('clear')) {
    const range = button.parentElement.querySelector('input')
    range.dataset.unset = ''
    range.focus()
  } else if (action.contains('add')) {
    const added = row.querySelector('template').content.cloneNode(true).firstElementChild
    row.querySelector('ol').append(added)
    added.querySelector('input, textarea').focus()
  } else if (action.contains('remove')) {
    const next = item.nextElementSibling ?? item.previousElementSibling
    item.remove()
    ;(next?.querySelector('.remove') ?? row.querySelector('.add')).focus()
  } else if (action.contains('up')) {
    item.previousElementSibling?.before(item)
  } else if (action.contains('down')) {
    item.nextElementSibling?.after(item)
  }
  update()
  // A button that was moved loses the focus.
  if (item?.isConnected) (button.disabled ? item.querySelector('.order button:enabled') : button)?.focus()
})

// MARK: Lists with search

/** Sections of a row's options for a search term; the last ones that were asked for are kept. */
const answers = new Map()
async function options(row, term) {
  const filter = sections => sections
    .map(section => ({
      ...section,
      options: section.options.filter(option =>
        `${option.display} ${option.subtitle ?? ''}`.toLowerCase().includes(term.toLowerCase())),
    }))
    .filter(section => section.options.length)
  const listed = row.querySelector(':scope > script[type="application/json"]')
  if (listed) return filter(JSON.parse(listed.textContent).sections)
  if (!('options' in row.dataset)) return []
  const isSearched = 'search' in row.dataset
  const others = configuration()
  delete others[row.dataset.parameter]
  const query = new URLSearchParams({ configuration: JSON.stringify(others) })
  if (isSearched && term) query.set('search', term)
  const path = `${row.dataset.options}&${query}`
  if (!answers.has(path)) {
    const answer = ask(path).then(answer => answer.sections)
    answer.catch(() => answers.delete(path))
    answers.clear()
    answers.set(path, answer)
  }
  const sections = await answers.get(path)
  return isSearched ? sections : filter(sections)
}

async function ask(path, init = {}) {
  const response = await fetch(path, {
    ...init, headers: { Authorization: `Bearer ${form.dataset.token}`, ...init.headers },
  })
  const answer = await response.json()
  if (response.ok) return answer
  throw Object.assign(new Error(answer.detail ?? response.statusText), { status: response.status, errors: answer.errors })
}

/** Shows a sentence, with the technical detail behind it. */
function explain(element, text, detail) {
  const parts = [['p', text]]
  if (detail) parts.push(['details', ''])
  element.replaceChildren(...(text ? parts : []).map(([name, text]) => {
    const part = document.createElement(name)
    part.textContent = text
    return part
  }))
  if (!detail) return
  const [summary, paragraph] = [document.createElement('summary'), document.createElement('p')]
  summary.textContent = texts.details
  paragraph.textContent = detail
  element.querySelector('details').append(summary, paragraph)
}

/** Shows an error of `ask`; `text` is the sentence for errors without one of their own. */
function explainError(element, error, text) {
  // What `fetch` throws without a connection.
  if (error instanceof TypeError) return explain(element, texts.offline)
  explain(element, error.status === 401 ? texts.outdated : text, error.message)
}

let asked = 0
/** Options of the open list, and how far they are shown. */
let opened
/** Number of options that are shown at once, since elements for 20,000 take seconds. */
const portion = 100
async function open(input, term) {
  const number = ++asked
  const row = input.closest('.row')
  const list = input.nextElementSibling
  if (list.hidden) list.replaceChildren(note(texts.loading))
  show(input, true)
  let sections
  try {
    sections = await options(row, term)
  } catch (error) {
    if (number !== asked) return
    show(input, false)
    return explainError(row.querySelector(':scope > .problem'), error, texts.optionsFailed)
  }
  if (number !== asked) return
  list.replaceChildren()
  opened = {
    list, row, current: JSON.stringify(bare(JSON.parse(input.closest('.combo').dataset.value || 'null'))), count: 0,
    options: sections.flatMap(section => section.options.map(option => ({ section, option }))),
  }
  extend()
  if (opened.count === 0) list.replaceChildren(note(texts.nothingFound))
}

/** Shows the next options of the open list. */
function extend() {
  const { list, options } = opened
  const added = options.slice(opened.count, opened.count + portion)
  for (const { section, option } of added) {
    if (opened.section !== section) list.append(opened.group = groupElement(section))
    opened.section = section
    opened.group.append(optionElement(option, opened.count++))
  }
}

function groupElement({ title }) {
  const group = document.createElement('span')
  group.setAttribute('role', 'group')
  if (title) {
    group.setAttribute('aria-label', title)
    const heading = note(title)
    heading.setAttribute('role', 'presentation')
    group.append(heading)
  }
  return group
}

function optionElement(option, place) {
  const { row, current, options } = opened
  const element = document.createElement('span')
  element.setAttribute('role', 'option')
  element.setAttribute('aria-posinset', place + 1)
  element.setAttribute('aria-setsize', options.length)
  element.id = `r${rows.indexOf(row)}-option-${place}`
  element.dataset.value = JSON.stringify(stored(row, option))
  element.dataset.display = option.display
  element.textContent = option.display
  if (option.subtitle) {
    const subtitle = document.createElement('small')
    subtitle.textContent = option.subtitle
    element.append(' ', subtitle)
  }
  if (JSON.stringify(bare(option.value)) === current) element.classList.add('current')
  return element
}

form.addEventListener('scroll', event => {
  const list = event.target
  if (list === opened?.list && list.scrollTop + 2 * list.clientHeight > list.scrollHeight) extend()
}, true)

function note(text) {
  const element = document.createElement('span')
  element.className = 'title'
  element.setAttribute('role', 'status')
  element.textContent = text
  return element
}

/** An option's value as it is stored: custom values, people and places with their display strings. */
function stored(row, option) {
  switch (row.dataset.type) {
    case 'custom': case 'person': return { identifier: bare(option.value), display: option.display }
    case 'location': return { ...option.value, display: option.display }
    default: return option.value
  }
}

function show(input, isOpen) {
  input.nextElementSibling.hidden = !isOpen
  input.setAttribute('aria-expanded', String(isOpen))
  if (!isOpen) input.removeAttribute('aria-activedescendant')
}

function activate(input, option) {
  for (const other of input.nextElementSibling.querySelectorAll('[aria-selected]')) other.removeAttribute('aria-selected')
  if (!option) return
  option.setAttribute('aria-selected', 'true')
  option.scrollIntoView({ block: 'nearest' })
  input.setAttribute('aria-activedescendant', option.id)
}

function choose(input, option) {
  touched.add(input.closest('.row'))
  input.closest('.combo').dataset.value = option.dataset.value
  input.value = input.dataset.display = option.dataset.display
  leave(input)
  showProblem(input.closest('.row'), '')
}

/** Closes a list. A text that was not chosen is undone; an empty one takes the value away. */
function leave(input) {
  asked++
  clearTimeout(timer)
  if (input.value.trim() === '') {
    input.closest('.combo').dataset.value = ''
    input.dataset.display = ''
  }
  input.value = input.dataset.display ?? input.defaultValue
  show(input, false)
  input.nextElementSibling.replaceChildren()
  update()
}

let timer
form.addEventListener('input', event => {
  const input = event.target.closest('[role=combobox]')
  if (!input) return
  clearTimeout(timer)
  timer = setTimeout(() => open(input, input.value.trim()), 150)
})

const isCombo = event => event.target.matches?.('[role=combobox]')
form.addEventListener('focusin', event => {
  if (isCombo(event)) event.target.select()
})
form.addEventListener('focusout', event => {
  if (isCombo(event)) leave(event.target)
})
form.addEventListener('mousedown', event => {
  // The input keeps the focus.
  if (event.target.closest('[role=listbox]')) event.preventDefault()
})
form.addEventListener('click', event => {
  const option = event.target.closest('[role=option]')
  if (option) choose(option.closest('.combo').querySelector('input'), option)
  else if (isCombo(event) && event.target.nextElementSibling.hidden) open(event.target, '')
})
form.addEventListener('keydown', event => {
  if (!isCombo(event)) return
  const input = event.target
  const list = input.nextElementSibling
  let all = [...list.querySelectorAll('[role=option]')]
  const active = all.findIndex(option => option.hasAttribute('aria-selected'))
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault()
    if (list.hidden) return void open(input, '')
    const place = active + (event.key === 'ArrowDown' ? 1 : -1)
    if (place === all.length && opened?.list === list) {
      extend()
      all = [...list.querySelectorAll('[role=option]')]
    }
    activate(input, all[Math.min(Math.max(place, 0), all.length - 1)])
  } else if (event.key === 'Enter' && !list.hidden) {
    event.preventDefault()
    const option = all[active] ?? (all.length === 1 ? all[0] : undefined)
    if (option) choose(input, option)
  } else if (event.key === 'Escape' && !list.hidden) {
    event.preventDefault()
    leave(input)
  }
})

// MARK: Saving

/** `place` is the input, or the item's number, that has the problem; else it is the first. */
function showProblem(row, text, place, detail) {
  if (!row) return
  explain(row.querySelector(':scope > .problem'), text, detail)
  const inputs = [...row.querySelectorAll('input, textarea')]
  for (const input of inputs) input.removeAttribute('aria-invalid')
  const input = inputs.includes(place) ? place : items(row)[place]?.querySelector('input, textarea') ?? inputs[0]
  if (text) input?.setAttribute('aria-invalid', 'true')
}

form.addEventListener('submit', async event => {
  event.preventDefault()
  for (const row of rows) showProblem(row, '')
  for (const place of form.querySelectorAll('.location')) {
    // A place has both coordinates, or is none.
    const isSet = [...place.querySelectorAll('input')].some(input => input.value.trim() !== '')
    for (const coordinate of place.querySelectorAll('[type=number]')) coordinate.required = isSet
  }
  const invalid = [...form.querySelectorAll('input')].find(input => !input.closest('[hidden]') && !input.validity.valid)
  if (invalid) {
    showProblem(invalid.closest('.row'), invalid.validationMessage, invalid)
    return invalid.focus()
  }
  const values = configuration()
  if (form.dataset.save) {
    explain(status, texts.saving)
    try {
      await ask(form.dataset.save, {
        method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ configuration: values }),
      })
    } catch (error) {
      explainError(status, error, error.status === 422 ? texts.invalid : texts.failed)
      for (const { pointer = '', detail } of error.errors ?? []) {
        const [, , name, place] = pointer.split('/').map(token => token.replaceAll('~1', '/').replaceAll('~0', '~'))
        showProblem(rows.find(row => row.dataset.parameter === name), texts.invalidValue, place, detail)
      }
      form.querySelector('[aria-invalid]')?.focus()
      return
    }
    explain(status, texts.saved)
  }
  // The host of the page, such as a web view, takes the values.
  document.dispatchEvent(new CustomEvent('configured', { detail: values }))
  window.webkit?.messageHandlers?.freshet?.postMessage(values)
})

for (const input of form.querySelectorAll('[data-time]')) {
  const time = new Date(input.dataset.time)
  if (isNaN(time)) continue
  const local = new Date(time - time.getTimezoneOffset() * 60_000).toISOString()
  input.value = local.replace(/(:00)?(\.000)?Z$/, '')
}
update()
form.dataset.ready = ''

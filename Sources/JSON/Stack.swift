// SPDX-License-Identifier: Apache-2.0

/// A stack in one block of memory, which is allocated with the first element and never shared.
@safe struct Stack<Element: BitwiseCopyable>: ~Copyable {
    fileprivate var start: UnsafeMutablePointer<Element>?
    fileprivate var capacity = 0
    fileprivate(set) var count = 0

    deinit {
        if let start = unsafe start { unsafe start.deallocate() }
    }

    @inline(__always)
    mutating func append(_ element: Element) {
        if count == capacity { grow(to: count + 1) }
        unsafe start.unsafelyUnwrapped.advanced(by: count).initialize(to: element)
        count &+= 1
    }

    @inline(never)
    private mutating func grow(to count: Int) {
        let larger = max(1024 / MemoryLayout<Element>.stride, 2 * capacity, count)
        let block = UnsafeMutablePointer<Element>.allocate(capacity: larger)
        if let start = unsafe start {
            unsafe block.update(from: start, count: self.count)
            unsafe start.deallocate()
        }
        unsafe start = block
        capacity = larger
    }

    @inline(__always)
    mutating func removeLast() { removeLast(to: count &- 1) }

    /// Keeps the first elements.
    @inline(__always)
    mutating func removeLast(to count: Int) { self.count = max(0, min(count, self.count)) }

    /// Makes room for more elements, so that pointers stay valid while they are appended.
    mutating func reserve(_ more: Int) {
        if count &+ more > capacity { grow(to: count + more) }
    }

    /// - Parameter index: index of an element.
    func pointer(to index: Int) -> UnsafeMutablePointer<Element> {
        precondition(index >= 0 && index < count)
        return unsafe start.unsafelyUnwrapped + index
    }

    /// Appends the elements at a place of other memory, or of this one if there is room for them.
    @inline(__always)
    mutating func append(_ elements: UnsafePointer<Element>, count more: Int) {
        guard more > 0 else { return }
        if count &+ more > capacity { grow(to: count + more) }
        unsafe start.unsafelyUnwrapped.advanced(by: count).update(from: elements, count: more)
        count &+= more
    }

    /// - Parameter index: index of an element.
    @inline(__always)
    subscript(index: Int) -> Element {
        get {
            precondition(index >= 0 && index < count)
            return unsafe start.unsafelyUnwrapped[index]
        }
        set {
            precondition(index >= 0 && index < count)
            unsafe start.unsafelyUnwrapped[index] = newValue
        }
    }

    /// The innermost element. A stack without one is a mistake of the caller, such as a key outside any object.
    @inline(__always)
    var last: Element {
        get { self[count &- 1] }
        set { self[count &- 1] = newValue }
    }

    /// The elements from an index on; valid until the next change.
    @inline(__always)
    func suffix(from index: Int) -> UnsafeMutableBufferPointer<Element> {
        guard index < count else { return unsafe UnsafeMutableBufferPointer(start: nil, count: 0) }
        return unsafe UnsafeMutableBufferPointer(start: start.unsafelyUnwrapped + index, count: count - index)
    }
}

extension Stack<UInt8> {
    /// Number of bytes that are copied without a call.
    static let few = 32

    /// Appends a part of an array.
    @inline(__always)
    mutating func append(_ bytes: [UInt8], from start: Int, to end: Int) {
        if UInt(bitPattern: end &- start) <= Self.few, start >= 0, start &+ Self.few <= bytes.count,
            count &+ Self.few <= capacity
        {
            unsafe bytes.withUnsafeBufferPointer { unsafe appendFew($0.baseAddress.unsafelyUnwrapped + start) }
            count &+= end &- start
        } else {
            appendMany(bytes, from: start, to: end)
        }
    }

    @inline(never)
    private mutating func appendMany(_ bytes: [UInt8], from start: Int, to end: Int) {
        precondition(start >= 0 && start <= end && end <= bytes.count)
        unsafe bytes.withUnsafeBufferPointer {
            if let source = $0.baseAddress { unsafe append(source + start, count: end &- start) }
        }
    }

    /// Appends some of the bytes once more. There must be room for them and for ``few`` more.
    @inline(__always)
    mutating func appendAgain(from first: Int, to end: Int) {
        let more = end &- first
        precondition(first >= 0 && more >= 0 && end <= count && count &+ more &+ Self.few <= capacity)
        if more <= Self.few {
            unsafe appendFew(UnsafePointer(start.unsafelyUnwrapped + first))
        } else {
            unsafe (start.unsafelyUnwrapped + count).update(from: start.unsafelyUnwrapped + first, count: more)
        }
        count &+= more
    }

    /// Appends a text of at most ``ShortText/maximumBytes``.
    @inline(__always)
    mutating func append(_ text: ShortText) {
        precondition(text.count <= ShortText.maximumBytes)
        if count &+ ShortText.maximumBytes > capacity { grow(to: count + ShortText.maximumBytes) }
        let to = unsafe UnsafeMutableRawPointer(start.unsafelyUnwrapped + count)
        unsafe to.storeBytes(of: text.words.0.littleEndian, as: UInt64.self)
        unsafe to.storeBytes(of: text.words.1.littleEndian, toByteOffset: 8, as: UInt64.self)
        unsafe to.storeBytes(of: text.words.2.littleEndian, toByteOffset: 16, as: UInt64.self)
        count &+= text.count
    }

    /// Copies the number of bytes that takes no call, behind the last one.
    @inline(__always)
    private mutating func appendFew(_ source: UnsafePointer<UInt8>) {
        let from = unsafe UnsafeRawPointer(source)
        let to = unsafe UnsafeMutableRawPointer(start.unsafelyUnwrapped + count)
        let (low, high) = unsafe (
            from.loadUnaligned(as: SIMD16<UInt8>.self), from.loadUnaligned(fromByteOffset: 16, as: SIMD16<UInt8>.self)
        )
        unsafe to.storeBytes(of: low, as: SIMD16<UInt8>.self)
        unsafe to.storeBytes(of: high, toByteOffset: 16, as: SIMD16<UInt8>.self)
    }
}

extension Stack<KeySlot> {
    /// Whether a key at the index or behind it begins with these bytes.
    @inline(__always)
    func contains(_ prefix: UInt64, from index: Int) -> Bool {
        guard var slot = unsafe start else { return false }
        let end = unsafe slot + count
        unsafe slot += index
        while unsafe slot < end {
            if unsafe slot.pointee.prefix == prefix { return true }
            unsafe slot += 1
        }
        return false
    }
}

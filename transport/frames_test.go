package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"pgregory.net/rapid"
)

// clientFrame is a frame as a client sends it, with the shortest form of its length.
func clientFrame(first byte, mask [4]byte, payload []byte) []byte {
	frame := []byte{first, 0x80}
	switch n := len(payload); {
	case n < 126:
		frame[1] |= byte(n)
	case n < 1<<16:
		frame[1] |= 126
		frame = binary.BigEndian.AppendUint16(frame, uint16(n))
	default:
		frame[1] |= 127
		frame = binary.BigEndian.AppendUint64(frame, uint64(n))
	}
	frame = append(frame, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	return frame
}

// readAllFrames reads frames until an error, as a socket does. It returns messages and control frames in the order in which they
// ended.
func readAllFrames(from io.Reader) (read []string, err error) {
	in := borrowFrameReader()
	defer in.free()
	for {
		f, err := in.readFrameHead(from)
		if err != nil {
			return read, err
		}
		if f.opcode >= websocket.CloseMessage {
			payload, err := in.readControlPayload(from, f)
			if err != nil {
				return read, err
			}
			read = append(read, fmt.Sprintf("%d:%s", f.opcode, payload))
			continue
		}
		if !in.messageBegun {
			in.messageOpcode = f.opcode
			in.message.Reset()
		}
		in.messageBegun = !f.final
		if err := in.readPayload(from, f); err != nil {
			return read, err
		}
		if f.final {
			read = append(read, fmt.Sprintf("%d:%s", in.messageOpcode, in.message.Bytes()))
		}
	}
}

// Messages and control frames are read as they were sent, for any division of messages into frames, any masks, any control frames
// in between, and any pieces in which the bytes arrive.
func TestFramesAreReadAsTheyWereSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mask := func() (mask [4]byte) {
			copy(mask[:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "mask"))
			return mask
		}
		var sent []byte
		var want []string
		control := func() {
			opcode := rapid.SampledFrom([]int{websocket.PingMessage, websocket.PongMessage, websocket.CloseMessage}).Draw(t, "control")
			payload := rapid.SliceOfN(rapid.Byte(), 0, maxControlPayload).Draw(t, "payload")
			sent = append(sent, clientFrame(finalBit|byte(opcode), mask(), payload)...)
			want = append(want, fmt.Sprintf("%d:%s", opcode, payload))
		}
		for range rapid.IntRange(0, 4).Draw(t, "messages") {
			opcode := rapid.SampledFrom([]int{websocket.TextMessage, websocket.BinaryMessage}).Draw(t, "kind")
			var message []byte
			frames := rapid.IntRange(1, 4).Draw(t, "frames")
			for i := range frames {
				size := rapid.SampledFrom([]int{0, 1, 125, 126, 127, 511, 512, 513, 65535, 65536, 70000}).Draw(t, "size")
				part := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, size)
				first := byte(continuationFrame)
				if i == 0 {
					first = byte(opcode)
				}
				if i == frames-1 {
					first |= finalBit
				}
				sent, message = append(sent, clientFrame(first, mask(), part)...), append(message, part...)
				if i < frames-1 && rapid.Bool().Draw(t, "between") {
					control()
				}
			}
			want = append(want, fmt.Sprintf("%d:%s", opcode, message))
			if rapid.Bool().Draw(t, "after") {
				control()
			}
		}
		from := rapid.SampledFrom([]func(io.Reader) io.Reader{
			iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader, func(r io.Reader) io.Reader { return r },
		}).Draw(t, "reader")(bytes.NewReader(sent))
		got, err := readAllFrames(from)
		if err != io.EOF {
			t.Fatalf("it ends with %v", err)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%d items of %d are read, or others", len(got), len(want))
		}
	})
}

// Reading any bytes ends in an error. It takes memory for the bytes that arrived and not for an announced length.
func TestReadingArbitraryBytesEndsInAnError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		if len(sent) > 1 && rapid.Bool().Draw(t, "likely") {
			sent[0], sent[1] = 0x81, sent[1]|maskBit
		}
		if _, err := readAllFrames(bytes.NewReader(sent)); err == nil {
			t.Fatal("no error")
		}
	})
	in := new(frameReader)
	announced := append([]byte{0x82, 0xff}, binary.BigEndian.AppendUint64(nil, 1<<40)...)
	from := bytes.NewReader(append(announced, 0, 0, 0, 0, 'a', 'b'))
	f, err := in.readFrameHead(from)
	if err != nil || f.length != 1<<40 {
		t.Fatal(f, err)
	}
	if err := in.readPayload(from, f); !errors.Is(err, io.ErrUnexpectedEOF) || in.message.Cap() > 8<<10 {
		t.Errorf("%v with %d bytes of memory", err, in.message.Cap())
	}
}

// A frame that no client may send closes the socket with 1002, and the reason is the rule that the frame breaks.
func TestFramesAgainstTheProtocol(t *testing.T) {
	none := [4]byte{}
	longPing := clientFrame(0x89, none, make([]byte, 126))
	for name, test := range map[string]struct {
		frames []byte
		reason string
	}{
		"a reserved bit":              {[]byte{0xc1, 0x80, 0, 0, 0, 0}, "reserved bits set"},
		"no mask":                     {[]byte{0x81, 0x02, '{', '}'}, "no mask"},
		"an unknown kind":             {clientFrame(0x83, none, nil), "unknown opcode 3"},
		"a long ping":                 {longPing, "control frame longer than 125 bytes"},
		"a ping in parts":             {clientFrame(0x09, none, nil), "control frame without FIN"},
		"a continuation of nothing":   {clientFrame(0x80, none, nil), "continuation of no message"},
		"two messages at once":        {append(clientFrame(0x01, none, []byte("{")), clientFrame(0x81, none, []byte("}"))...), "message before the end of another one"},
		"a length below zero":         {append([]byte{0x81, 0xff}, bytes.Repeat([]byte{0xff}, 8)...), "bad length"},
		"several":                     {[]byte{0xf3, 0x00}, "reserved bits set, unknown opcode 3, no mask"},
		"a close of one byte":         {clientFrame(0x88, none, []byte{3}), "close frame of 1 byte"},
		"a close with a bad code":     {clientFrame(0x88, none, []byte{3, 237}), "bad close code 1005"},
		"a close with a bad reason":   {clientFrame(0x88, none, []byte{3, 232, 0xff}), "close reason that is not UTF-8"},
		"a close with a reserved one": {clientFrame(0x88, none, []byte{7, 208}), "bad close code 2000"},
	} {
		t.Run(name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.openSocket("alice")
				_, _ = c.conn.NetConn().Write(test.frames) // the socket may close before it has read the last
				if closing := c.expectClose(websocket.CloseProtocolError); closing.Text != test.reason {
					w.Errorf("the reason is %q", closing.Text)
				}
			})
		})
	}
}

// A close of the client is answered with its code, and ends the socket.
func TestACloseIsAnsweredWithItsCode(t *testing.T) {
	for code, want := range map[int]int{1000: 1000, 1001: 1001, 1012: 1012, 3000: 3000, 4999: 4999, 0: websocket.CloseNoStatusReceived} {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.openSocket("alice")
			var payload []byte
			if code > 0 {
				payload = append(binary.BigEndian.AppendUint16(nil, uint16(code)), "bye"...)
			}
			if _, err := c.conn.NetConn().Write(clientFrame(0x88, [4]byte{1, 2, 3, 4}, payload)); err != nil {
				w.Fatal(err)
			}
			c.expectClose(want)
			synctest.Wait()
			if open := w.sockets.Stats().Open; open != 0 {
				w.Errorf("%d sockets are left", open)
			}
		})
	}
}

// The limit applies to a whole message, in any number of frames. A message of exactly that size is read.
func TestTheSizeOfAMessageIsBounded(t *testing.T) {
	const limit = 300
	ping := []byte(`{"type":"ping"}`)
	whole := append(ping[:len(ping)-1:len(ping)-1], append(bytes.Repeat([]byte(" "), limit-len(ping)), '}')...)
	for frames, parts := range map[string][][]byte{"one frame": {whole}, "parts": {whole[:100], whole[100:200], whole[200:]}} {
		for _, more := range []int{0, 1} {
			t.Run(fmt.Sprint(frames, " and ", more), func(t *testing.T) {
				runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.MaxMessageBytes = limit }, func(w *socketFixture) {
					c := w.openSocket("alice")
					for i, part := range parts {
						first := byte(continuationFrame)
						if i == 0 {
							first, part = websocket.TextMessage, append(bytes.Repeat([]byte(" "), more), part...)
						}
						if i == len(parts)-1 {
							first |= finalBit
						}
						if _, err := c.conn.NetConn().Write(clientFrame(first, [4]byte{9, 8, 7, 6}, part)); err != nil {
							break // the socket was closed
						}
					}
					if more > 0 {
						c.expectClose(websocket.CloseMessageTooBig)
						return
					}
					c.expectMessage(`{"type":"pong"}`)
				})
			})
		}
	}
}

// Messages that arrive while the socket closes are dropped, including a message that began before.
func TestMessagesOfAClosingSocketAreDropped(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, err := w.dial(nil, webSocketSubprotocol)
		if err != nil {
			w.Fatal(err)
		}
		defer conn.Close()
		conn.SetCloseHandler(func(int, string) error { return nil })
		write := func(frames ...[]byte) {
			w.Helper()
			if _, err := conn.NetConn().Write(bytes.Join(frames, nil)); err != nil {
				w.Fatal(err)
			}
			synctest.Wait()
		}
		none := [4]byte{}
		write(clientFrame(0x81, none, []byte(`{"type":"connection_init"}`)))
		if _, text, err := conn.ReadMessage(); string(text) != connectionAck || err != nil {
			w.Fatalf("%s, %v", text, err)
		}
		write(clientFrame(0x01, none, []byte(`{"type":"subscribe","id":"1",`)))
		go w.sockets.Drain(w.Context(), 0)
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
			w.Fatal(err)
		}
		write(clientFrame(0x80, none, []byte(`"payload":{"query":"subscription { ticks }"}}`)),
			clientFrame(0x81, none, []byte(`{"type":"subscribe","id":"2","payload":{"query":"subscription { ticks }"}}`)))
		if n := w.schema.hub.countWatchers(); n != 0 || w.sockets.Stats().Open != 1 {
			w.Errorf("%d subscriptions began, of %d sockets", n, w.sockets.Stats().Open)
		}
	})
}

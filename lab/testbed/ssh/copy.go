package ssh

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// binary is a program of this machine that is copied to hosts.
type binary struct {
	path    string // on this machine
	name    string // file name on hosts: the program's name and the beginning of its checksum
	machine elf.Machine
	content []byte
}

// machines are the processor architectures, by their names in uname.
var machines = map[string]elf.Machine{
	"x86_64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64, "armv7l": elf.EM_ARM, "i686": elf.EM_386,
	"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loongarch64": elf.EM_LOONGARCH,
}

func readBinary(name, file string) (*binary, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be copied to hosts: it is not a Linux program: %w", file, err)
	}
	return &binary{file, fmt.Sprintf("%s-%.6x", name, sha256.Sum256(content)), program.Machine, content}, nil
}

// session is the script on a host while programs are copied.
type session struct {
	in        *bufio.Reader
	out       io.Writer
	system    string // from uname
	machine   string
	directory string // the temporary directory
}

const (
	// maxNoise is how many lines the start-up files of a login shell may write.
	maxNoise = 1000
	// maxShellLine is the longest line that is read, bytes.
	maxShellLine = 64 << 10
)

// greet reads the first line of the script.
func greet(in *bufio.Reader, out io.Writer) (*session, error) {
	s := &session{in: in, out: out}
	line, err := s.answer()
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(line, " ", 3)
	if len(parts) != 3 || !path.IsAbs(parts[2]) {
		return nil,
			fmt.Errorf("its shell answers %.80q; expected a system, an architecture and the absolute path of a "+
				"directory", line)
	}
	s.system, s.machine, s.directory = parts[0], parts[1], parts[2]
	return s, nil
}

// answer returns the next line of the script, without its mark.
func (s *session) answer() (string, error) {
	var line, last []byte
	for range maxNoise {
		part, err := s.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) && len(line) < maxShellLine {
			line = append(line, part...)
			continue
		}
		if err != nil {
			return "", err
		}
		line = append(line, part...)
		if text, ok := strings.CutPrefix(string(line), mark); ok {
			return strings.TrimSuffix(text, "\n"), nil
		}
		last, line = line, nil
	}
	return "",
		fmt.Errorf("its shell has written %d lines that are not the script's, the last one %.80q; expected start-up "+
			"files of the shell that write less", maxNoise, last)
}

// copy copies a program into the temporary directory and returns its path there.
func (s *session) copy(b *binary) (string, error) {
	if fits, known := machines[s.machine]; s.system != "Linux" || known && fits != b.machine {
		return "",
			fmt.Errorf("it is %s on %s, but %s is a program for Linux on %s; build it with GOOS=linux and the host's "+
				"GOARCH, copy it there, and set its path with the key programs of the inventory",
				s.system, s.machine, b.path, strings.ToLower(strings.TrimPrefix(b.machine.String(), "EM_")))
	}
	if _, err := fmt.Fprintf(s.out, "put %d %s\n", len(b.content), b.name); err != nil {
		return "", err
	}
	if _, err := s.out.Write(b.content); err != nil {
		return "", err
	}
	if _, err := s.answer(); err != nil {
		return "", err
	}
	return path.Join(s.directory, b.name), nil
}

func (s *session) run(mcmwlab string) error {
	_, err := fmt.Fprintf(s.out, "run 0 %s\n", mcmwlab)
	return err
}

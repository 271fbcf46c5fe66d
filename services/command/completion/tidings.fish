# Completion of tidings for fish. Load it with: tidings completion fish | source

function __tidings_complete
    set -l words (commandline -opc)
    for line in ($words[1] __complete fish $words[2..-1] (commandline -ct) 2>/dev/null)
        if test "$line" = :files
            set -l parts (string split -m 1 = -- (commandline -ct))
            if set -q parts[2]; and string match -q -- '-*' $parts[1]
                for file in (__fish_complete_path $parts[2])
                    echo $parts[1]=$file
                end
            else
                __fish_complete_path (commandline -ct)
            end
        else
            echo $line
        end
    end
end

complete -c tidings -f -a '(__tidings_complete)'
